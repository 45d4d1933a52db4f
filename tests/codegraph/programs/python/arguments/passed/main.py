def hello():
    pass


def call(f):
    f()


call(hello)
