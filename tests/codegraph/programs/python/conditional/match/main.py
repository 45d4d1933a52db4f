def left():
    pass


def right():
    pass


class Turn:
    def __init__(self, job):
        self.job = job


def steer(word):
    match word:
        case "l":
            left()
        case Turn(job=action):
            action()
        case [first, *rest]:
            first()


steer("l")
steer(Turn(right))
steer([left])
