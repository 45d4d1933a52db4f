def read():
    pass


def write():
    pass


for name, job in (("r", read), ("w", write)):
    job()
