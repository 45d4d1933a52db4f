class A:
    def outer(this):
        this.inner()

    def inner(self):
        helper = self.last
        helper()

    def last(self):
        pass
