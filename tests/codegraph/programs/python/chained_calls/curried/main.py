def a(f):
    def b():
        def c():
            f()

        return c

    return b


def work():
    pass


a(work)()()
