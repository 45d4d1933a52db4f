class Adder:
    def __init__(self, by):
        self.by = by

    def __call__(self, number):
        return self.by


add = Adder(3)
add(4)
