def one():
    pass


def two():
    pass


a = one
b = a
b()
a = two
a()
