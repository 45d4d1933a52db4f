def heat():
    pass
