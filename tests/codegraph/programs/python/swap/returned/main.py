def f():
    pass


def g():
    pass


def pair():
    return f, g


def use():
    first, second = pair()
    second()


use()
