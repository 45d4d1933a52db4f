import threading


class Worker(threading.Thread):
    def __init__(self):
        super().__init__()
        self.start()

    def run(self):
        self.work()

    def work(self):
        pass
