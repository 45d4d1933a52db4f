class Registry(type):
    def __call__(cls, *arguments):
        return super().__call__(*arguments)


class Thing(metaclass=Registry):
    def __init__(self):
        pass


class Watched:
    def __init_subclass__(cls):
        note(cls)


def note(cls):
    pass


class Seen(Watched):
    pass


Thing()
