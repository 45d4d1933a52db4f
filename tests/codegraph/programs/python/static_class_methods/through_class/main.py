class A:
    def f(self):
        self.g()

    def g(self):
        pass


class B(A):
    def g(self):
        pass


A.f(B())
