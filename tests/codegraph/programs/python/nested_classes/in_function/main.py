def build():
    class Local:
        def __init__(self):
            self.f()

        def f(self):
            helper()

    return Local()


def helper():
    pass


build().f()
