class Proxy:
    def __getattr__(self, name):
        return work

    def known(self):
        pass


def work():
    pass


proxy = Proxy()
proxy.known()
proxy.anything()
