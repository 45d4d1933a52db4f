from contextlib import contextmanager


class Session:
    def query(self):
        pass


@contextmanager
def session():
    yield Session()


with session() as current:
    current.query()
