def f():
    pass


def g():
    pass


def h():
    pass


a, (b, c) = f, (g, h)


def run():
    x, [y, *z] = f, [g, h]
    y()
    z[0]()


b()
run()
