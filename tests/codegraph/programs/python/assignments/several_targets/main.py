def f():
    pass


def call_them():
    a = b = f
    a()
    (c := b)()
    c()


call_them()
