class Counted:
    def __init__(self, f):
        self.f = f

    def __call__(self):
        return self.f()


@Counted
def work():
    pass


def register(cls):
    return cls


@register
class Known:
    def run(self):
        pass


work()
Known().run()
