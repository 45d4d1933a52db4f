class Query:
    def where(self):
        return self

    def order(self):
        return self

    def all(self):
        pass


Query().where().order().all()
