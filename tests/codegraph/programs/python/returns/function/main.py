def work():
    pass


def get():
    return work


get()()
