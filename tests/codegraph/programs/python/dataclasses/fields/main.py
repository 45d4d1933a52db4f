from dataclasses import dataclass


@dataclass
class Step:
    name: str
    job: object

    def run(self):
        self.job()


def work():
    pass


Step("a", work).run()
