class Job:
    def ready(self):
        return True

    def run(self):
        pass


jobs = [Job()]
for job in [j for j in jobs if j.ready()]:
    job.run()
any(j.ready() for j in jobs)
