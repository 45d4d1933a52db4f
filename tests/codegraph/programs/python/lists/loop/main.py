def a():
    pass


def b():
    pass


def run_all(jobs):
    for job in jobs:
        job()


run_all([a, b])
more = []
more.extend([a])
more += [b]
for job in more:
    job()
