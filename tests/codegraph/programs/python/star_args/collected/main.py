def a():
    pass


def b():
    pass


def run(*jobs):
    jobs[1]()


def run_all(first, *jobs):
    for job in jobs:
        job()


run(a, b)
run_all(b, a)
