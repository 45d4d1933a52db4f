def ring():
    pass


def knock():
    pass


class Bell:
    def __init__(self, sound):
        self.sound = sound

    def use(self):
        self.sound()


class Door:
    def __init__(self, sound):
        self.sound = sound

    def use(self):
        self.sound()


Bell(ring).use()
Door(knock).use()
