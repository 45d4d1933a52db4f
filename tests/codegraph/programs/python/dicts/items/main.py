def a():
    pass


def b():
    pass


table = {"a": a, "b": b}
for name, job in table.items():
    job()
for job in table.values():
    job()
for name in table:
    table[name]()
