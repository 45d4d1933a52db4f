def usual():
    pass


def other():
    pass


def run(job=usual):
    job()


def run_given(job=usual):
    job()


run()
run_given(other)
