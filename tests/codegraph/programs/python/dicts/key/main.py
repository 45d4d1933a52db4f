def add():
    pass


def drop():
    pass


table = {"add": add, "drop": drop}
table["add"]()
