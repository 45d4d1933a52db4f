from functools import reduce


def compose(f, g):
    return lambda: g()


def a():
    pass


def b():
    pass


reduce(compose, [a, b])()
