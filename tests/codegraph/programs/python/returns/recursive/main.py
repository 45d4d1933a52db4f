def find(n):
    if n:
        return find(n - 1)
    return found


def found():
    pass


find(2)()
