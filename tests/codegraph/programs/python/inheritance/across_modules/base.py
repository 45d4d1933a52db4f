class Shape:
    def area(self):
        return self.compute()

    def compute(self):
        raise NotImplementedError
