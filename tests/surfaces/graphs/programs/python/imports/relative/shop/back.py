def pay():
    pass
