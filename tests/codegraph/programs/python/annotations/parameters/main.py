from typing import Optional


class Db:
    def query(self):
        pass


def handler(db: Db):
    db.query()


def maybe(db: Optional["Db"], others: list[Db]):
    db.query()
    for other in others:
        other.query()
