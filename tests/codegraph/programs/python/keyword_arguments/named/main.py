def a():
    pass


def b():
    pass


def call(first, second):
    second()


call(second=b, first=a)
