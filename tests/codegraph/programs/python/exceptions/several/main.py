class A(Exception):
    def show(self):
        pass


class B(Exception):
    def show(self):
        pass


def run(flag):
    job = one
    try:
        job = two
        if flag:
            raise A()
        raise B()
    except (A, B) as error:
        error.show()
    finally:
        job()


def one():
    pass


def two():
    pass


run(True)
run(False)
