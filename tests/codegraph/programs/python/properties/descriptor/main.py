class Typed:
    def __get__(self, owner, cls=None):
        return work

    def __set__(self, owner, value):
        pass


class Model:
    field = Typed()


def work():
    pass


model = Model()
model.field()
model.field = 3
