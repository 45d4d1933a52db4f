def a():
    pass


def b():
    pass


both = (a, b)
both[0]()
