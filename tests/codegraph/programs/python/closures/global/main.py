hook = None


def install(f):
    global hook
    hook = f


def fire():
    hook()


def work():
    pass


install(work)
fire()
hook()
