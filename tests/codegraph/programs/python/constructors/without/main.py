class Plain:
    def f(self):
        pass


Plain().f()
made = Plain()
made.f()
