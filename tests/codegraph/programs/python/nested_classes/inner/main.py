class Outer:
    class Inner:
        def f(self):
            pass

    def make(self):
        return self.Inner()


Outer.Inner().f()
Outer().make().f()
