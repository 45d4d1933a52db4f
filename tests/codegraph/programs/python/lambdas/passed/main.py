def apply(f, value):
    return f(value)


def double(x):
    return x


apply(lambda x: double(x), 3)
table = {"k": lambda: double(1)}
table["k"]()
