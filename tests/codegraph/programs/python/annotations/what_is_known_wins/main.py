class Base:
    def go(self):
        pass


class Real(Base):
    def go(self):
        pass


def use(thing: Base):
    thing.go()


use(Real())
