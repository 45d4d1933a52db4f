def work():
    pass


def outer(*args, **kwargs):
    inner(*args, **kwargs)


def inner(f, after):
    f()
    after()


def done():
    pass


outer(work, after=done)
