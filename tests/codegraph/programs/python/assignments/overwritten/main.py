def old():
    pass


def new():
    pass


def run():
    job = old
    job = new
    job()


run()
