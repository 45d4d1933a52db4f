class Table:
    def __getitem__(self, key):
        return work

    def __setitem__(self, key, value):
        value()


def work():
    pass


table = Table()
table["a"]()
table["b"] = work
