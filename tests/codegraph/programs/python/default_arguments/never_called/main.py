def usual():
    pass


def run(job=usual, *, then=usual):
    job()
    then()
