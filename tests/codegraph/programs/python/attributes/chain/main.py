class Engine:
    def start(self):
        pass


class Car:
    def __init__(self):
        self.engine = Engine()


class Garage:
    def __init__(self, car):
        self.car = car


garage = Garage(Car())
garage.car.engine.start()
