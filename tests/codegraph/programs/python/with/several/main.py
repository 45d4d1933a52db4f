class A:
    def __enter__(self):
        return work

    def __exit__(self, *why):
        pass


class B:
    def __enter__(self):
        pass

    def __exit__(self, *why):
        pass


def work():
    pass


with A() as job, B():
    job()
with (A() as other, B() as nothing):
    other()
