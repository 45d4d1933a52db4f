from enum import Enum


class Colour(Enum):
    RED = 1

    def show(self):
        pass


Colour.RED.show()
for colour in Colour:
    colour.show()
Colour(1).show()
