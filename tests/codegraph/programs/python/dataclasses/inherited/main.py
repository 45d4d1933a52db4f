from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class Base:
    hook: object

    def fire(self):
        self.hook()


@dataclass
class Child(Base):
    other: object = None


class Pair(NamedTuple):
    first: object
    second: object


def a():
    pass


def b():
    pass


Child(a, b).fire()
pair = Pair(a, b)
pair.second()
