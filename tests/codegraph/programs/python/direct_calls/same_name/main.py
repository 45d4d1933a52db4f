import other


def run():
    pass


class A:
    def run(self):
        run()


A().run()
other.run()
