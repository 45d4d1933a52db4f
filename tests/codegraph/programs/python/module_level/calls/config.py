def load():
    pass


def prepare():
    pass


prepare()
