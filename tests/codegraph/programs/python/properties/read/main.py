class User:
    @property
    def name(self):
        return self.load()

    def load(self):
        return "x"


User().name
