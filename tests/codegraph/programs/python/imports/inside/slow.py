def parse():
    pass


def missing():
    pass
