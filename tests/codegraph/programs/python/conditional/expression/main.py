def a():
    pass


def b():
    pass


def pick(flag):
    job = a if flag else b
    job()


pick(True)
pick(False)
