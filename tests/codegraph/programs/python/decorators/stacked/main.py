def a(f):
    def in_a():
        return f()

    return in_a


def b(f):
    def in_b():
        return f()

    return in_b


@a
@b
def work():
    pass


work()
