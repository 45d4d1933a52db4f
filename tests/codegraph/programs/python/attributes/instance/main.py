def work():
    pass


class Box:
    def __init__(self):
        self.job = None

    def open(self):
        self.job()


box = Box()
box.job = work
box.open()
box.job()
