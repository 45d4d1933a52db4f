from contextlib import contextmanager


class Store:
    @contextmanager
    def transaction(self):
        self.begin()
        yield self

    def begin(self):
        pass

    def write(self):
        pass


with Store().transaction() as store:
    store.write()
