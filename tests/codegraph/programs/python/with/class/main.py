class Lock:
    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.release()

    def release(self):
        pass

    def check(self):
        pass


with Lock() as lock:
    lock.check()
