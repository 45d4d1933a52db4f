def fallback():
    pass


def run(job=None):
    job = job or fallback
    job()


def chosen():
    pass


flag = True
run(flag and chosen)
run()
