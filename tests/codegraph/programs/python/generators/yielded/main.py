def work():
    pass


def jobs():
    yield work


for job in jobs():
    job()
next(jobs())()
