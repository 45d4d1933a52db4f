import land.city.house


def walk():
    land.city.house.enter()


def turn():
    pass
