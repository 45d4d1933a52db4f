import outside


class Client:
    def send(self):
        pass


def connect() -> Client:
    return outside.make()


class App:
    client: Client

    def __init__(self, client: Client):
        self.own = client

    def run(self):
        self.client.send()
        self.own.send()


def use():
    connect().send()
