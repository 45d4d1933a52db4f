class Tools:
    @staticmethod
    def cut(what):
        what()

    def use(self):
        self.cut(wood)


def wood():
    pass


def paper():
    pass


Tools.cut(paper)
Tools().use()
