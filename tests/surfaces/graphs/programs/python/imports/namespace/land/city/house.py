def enter():
    pass
