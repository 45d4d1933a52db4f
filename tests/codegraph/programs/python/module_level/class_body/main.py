def make():
    return 3


def check(value):
    pass


class Settings:
    size = make()
    check(size)


for i in range(2):
    check(i)
