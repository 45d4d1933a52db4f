def outer(f):
    def inner():
        f()

    return inner


def work():
    pass


outer(work)()
