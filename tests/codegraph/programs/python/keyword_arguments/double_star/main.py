def a():
    pass


def b():
    pass


def call(x, y):
    y()


def anything(**options):
    options["hook"]()
    call(**options["rest"])


anything(hook=a, rest={"x": a, "y": b})
call(**{"x": a, "y": b})
