def target():
    pass


def outer(f):
    inner(f)


def inner(g):
    g()


outer(target)
