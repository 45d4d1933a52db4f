class Money:
    def __init__(self, n):
        self.n = n

    def __add__(self, other):
        return Money(self.n)

    def __neg__(self):
        return self

    def show(self):
        pass


total = Money(1) + Money(2)
total.show()
-total
