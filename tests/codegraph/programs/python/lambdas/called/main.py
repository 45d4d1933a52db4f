def work():
    pass


f = lambda: work()
f()
(lambda x: x())(work)
