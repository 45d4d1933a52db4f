class Table:
    def rows(self):
        return [Row()]


class Row:
    def cell(self):
        pass


Table().rows()[0].cell()
