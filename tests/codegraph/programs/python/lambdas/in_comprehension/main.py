def a():
    pass


jobs = [lambda f=f: f() for f in [a]]
for job in jobs:
    job()
others = [lambda: g() for g in [a]]
others[0]()
