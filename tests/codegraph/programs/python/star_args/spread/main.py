def a():
    pass


def b():
    pass


def call(x, y):
    y()


both = (a, b)
call(*both)
call(a, *[b])
