def double(x):
    return x


def even(x):
    return True


list(map(double, [1]))
list(filter(even, [1]))
