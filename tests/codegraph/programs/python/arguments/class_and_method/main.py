class Pump:
    def __init__(self):
        pass

    def run(self):
        pass


def build(cls):
    return cls()


def use(method):
    method()


use(build(Pump).run)
