def dec(f):
    def inner():
        f()

    return inner


@dec
def work():
    pass


work()
