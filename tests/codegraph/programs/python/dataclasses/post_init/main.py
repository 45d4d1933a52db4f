import dataclasses


@dataclasses.dataclass(frozen=True)
class Point:
    x: int

    def __post_init__(self):
        self.check()

    def check(self):
        pass


Point(x=1).check()
