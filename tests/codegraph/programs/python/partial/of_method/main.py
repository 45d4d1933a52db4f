from functools import partial


class A:
    def go(self, f):
        f()


def work():
    pass


jobs = [partial(A().go, work)]
for job in jobs:
    job()
