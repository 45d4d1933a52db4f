class Node:
    def next(self):
        return Leaf()


class Leaf:
    def value(self):
        return work


def work():
    pass


def start():
    return Node()


start().next().value()()
