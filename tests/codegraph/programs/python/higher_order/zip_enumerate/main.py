def a():
    pass


def b():
    pass


for index, job in enumerate([a]):
    job()
for name, job in zip(["x"], [b]):
    job()
for job in reversed([a]):
    job()
