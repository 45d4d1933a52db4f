def left():
    pass


def right():
    pass


def exchange():
    a, b = left, right
    a, b = b, a
    a()


exchange()
