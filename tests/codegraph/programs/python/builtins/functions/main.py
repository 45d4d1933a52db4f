def measure(x):
    return len(x)


print(measure("abc"), sorted([1]), isinstance(1, int))
