class Root:
    def go(self):
        pass


class Left(Root):
    def go(self):
        super().go()


class Right(Root):
    def go(self):
        super().go()


class Both(Left, Right):
    def go(self):
        super().go()


Both().go()
