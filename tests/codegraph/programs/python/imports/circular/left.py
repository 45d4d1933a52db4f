import right


def swing():
    right.catch()


def release():
    pass
