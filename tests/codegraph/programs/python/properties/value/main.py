from functools import cached_property


def work():
    pass


class Box:
    @property
    def job(self):
        return work

    @cached_property
    def later(self):
        return work

    old = property(lambda self: work)


box = Box()
box.job()
box.later()
box.old()
