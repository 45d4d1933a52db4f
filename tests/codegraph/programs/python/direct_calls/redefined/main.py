def f():
    old()


def f():
    new()


def old():
    pass


def new():
    pass


f()
