class Stop(Exception):
    def __init__(self):
        note()


def note():
    pass


def run():
    raise Stop


try:
    run()
except (Stop, ValueError):
    note()
