def parse():
    pass
