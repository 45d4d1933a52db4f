class Dial:
    @property
    def level(self):
        return self.current

    @level.setter
    def level(self, value):
        self.check(value)
        self.current = value

    def check(self, value):
        pass


dial = Dial()
dial.level = 3
dial.level
