class A:
    def __init__(self):
        self.prepare()

    def prepare(self):
        pass


class B(A):
    pass


A()
B()
