class A:
    def outer(self):
        self.inner()

    def inner(self):
        pass


A().outer()
