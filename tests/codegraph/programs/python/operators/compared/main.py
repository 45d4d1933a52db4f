class Version:
    def __eq__(self, other):
        return True

    def __lt__(self, other):
        return True


Version() == Version()
Version() < Version()
