def outer():
    first = lambda: second()
    second = lambda: None
    first()


class A:
    key = lambda self: self.f()

    def f(self):
        pass


outer()
A().key()
