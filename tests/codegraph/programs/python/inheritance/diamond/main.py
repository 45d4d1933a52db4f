class Top:
    def who(self):
        pass


class Left(Top):
    pass


class Right(Top):
    def who(self):
        pass


class Bottom(Left, Right):
    pass


Bottom().who()
