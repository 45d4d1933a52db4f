class A:
    def run(self):
        pass

    def stop(self):
        pass


getattr(A(), "run")()
name = "stop"
getattr(A(), name)()
