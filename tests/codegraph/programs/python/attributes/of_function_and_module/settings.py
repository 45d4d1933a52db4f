handler = None


def handle():
    handler()
