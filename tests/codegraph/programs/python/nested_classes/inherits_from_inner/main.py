class Registry:
    class Entry:
        def save(self):
            self.check()

        def check(self):
            pass


class Special(Registry.Entry):
    def check(self):
        pass


Special().save()
