def shadow():
    pass
