def a():
    pass


def b():
    pass


for job in {a} | {b}:
    job()
frozen = frozenset([a])
for job in frozen:
    job()
