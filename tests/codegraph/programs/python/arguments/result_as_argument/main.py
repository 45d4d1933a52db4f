def make():
    return work


def work():
    pass


def call(f):
    f()


call(make())
