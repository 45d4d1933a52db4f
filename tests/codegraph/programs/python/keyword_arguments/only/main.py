def done():
    pass


def run(job, *, after):
    after()


def job():
    pass


run(job, after=done)
