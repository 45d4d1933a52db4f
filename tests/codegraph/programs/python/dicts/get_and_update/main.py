def a():
    pass


def b():
    pass


def fallback():
    pass


table = dict(a=a)
table.update({"b": b})
table.get("a")()
table.get("zzz", fallback)()
merged = {**table}
merged["b"]()
