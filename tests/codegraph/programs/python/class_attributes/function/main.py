def work():
    pass


class A:
    job = staticmethod(work)
    kind = dict

    def run(self):
        self.job()
        A.job()


A().run()
