class Pan:
    def __init__(self):
        pass

    def fry(self):
        pass
