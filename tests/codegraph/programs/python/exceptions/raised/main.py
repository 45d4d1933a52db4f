class Failed(Exception):
    def __init__(self, why):
        self.why = why

    def explain(self):
        pass


def risky():
    raise Failed("x")


try:
    risky()
except Failed as error:
    error.explain()
