import functools


def times(n):
    def dec(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)

        return inner

    return dec


@times(3)
def work(x):
    x()


def given():
    pass


work(given)
