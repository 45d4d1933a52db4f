def boil():
    pass
