def first():
    pass


def later():
    pass


def turn():
    step = first
    for _ in range(3):
        step()
        step = later


turn()
