def same(f):
    return f


def a():
    pass


def b():
    pass


def use_a():
    same(a)()


def use_b():
    same(b)()


use_a()
use_b()
