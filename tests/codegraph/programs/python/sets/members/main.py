def a():
    pass


def b():
    pass


for job in {a, b}:
    job()
chosen = set()
chosen.add(a)
for job in chosen:
    job()
