from functools import partial


def call(f, g):
    g()


def a():
    pass


def b():
    pass


run = partial(call, a)
run(b)
