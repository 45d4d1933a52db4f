def work():
    pass


def other():
    pass


job = work
[job for job in [other]]
job()
