def make(name):
    return lambda: name


table = {name: make(name) for name in ("x", "y")}
table["x"]()
