class A:
    def copy(self):
        return type(self)()

    def twin(self):
        return self.__class__()


class B(A):
    def __init__(self):
        pass


B().copy().twin()
