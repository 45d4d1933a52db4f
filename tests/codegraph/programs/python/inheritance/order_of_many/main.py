class A:
    def f(self):
        pass

    def g(self):
        pass


class B:
    def f(self):
        pass

    def h(self):
        pass


class C(B, A):
    def g(self):
        self.f()
        self.h()
        A.g(self)


C().g()
