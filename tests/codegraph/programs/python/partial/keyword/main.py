import functools


def call(value, hook=None):
    hook()


def hook():
    pass


later = functools.partial(call, hook=hook)
later(1)
