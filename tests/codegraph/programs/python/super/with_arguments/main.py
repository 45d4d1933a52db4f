class A:
    def __init__(self, f):
        self.f = f

    @classmethod
    def build(cls):
        return cls(done)


class B(A):
    def __init__(self, f):
        super(B, self).__init__(f)

    @classmethod
    def build(cls):
        return super().build()


def done():
    pass


B.build().f()
