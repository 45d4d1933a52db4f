def cut():
    pass


def saw():
    pass
