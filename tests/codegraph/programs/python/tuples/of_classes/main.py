class Cat:
    def speak(self):
        pass


class Dog:
    def speak(self):
        pass


def make(index):
    return (Cat, Dog)[index]()


kinds = (Cat, Dog)
kinds[1]().speak()
