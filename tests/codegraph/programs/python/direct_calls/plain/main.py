def a():
    b()


def b():
    c()
    a


def c():
    pass


a()
