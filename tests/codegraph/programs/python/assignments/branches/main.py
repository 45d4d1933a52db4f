def fast():
    pass


def slow():
    pass


def never():
    pass


def pick(hurry):
    work = never
    if hurry:
        work = fast
    else:
        work = slow
    work()


def early(hurry):
    work = fast
    if hurry:
        work = never
        return
    work()


pick(True)
pick(False)
early(False)
