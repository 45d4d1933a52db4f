class A:
    pass


def fallback():
    pass


def extra():
    pass


a = A()
setattr(a, "extra", extra)
getattr(a, "missing", fallback)()
a.extra()
