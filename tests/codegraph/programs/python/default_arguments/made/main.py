class Clock:
    def tick(self):
        pass


def run(clock=Clock()):
    clock.tick()


class Timer:
    def __init__(self, clock=Clock()):
        self.clock = clock

    def wait(self):
        self.clock.tick()


run()
Timer().wait()
