def a():
    pass


def b():
    pass


def c():
    pass


steps = [a, b, c]
steps[1]()
steps[-1]()
