def blue():
    pass


def mix():
    pass


def _private():
    pass
