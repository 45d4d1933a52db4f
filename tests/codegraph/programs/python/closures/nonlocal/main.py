def before():
    pass


def after():
    pass


def outer():
    job = before

    def change():
        nonlocal job
        job = after

    change()
    job()


outer()
