def print(text):
    pass


def use(len):
    len()


def mine():
    pass


print("x")
use(mine)
