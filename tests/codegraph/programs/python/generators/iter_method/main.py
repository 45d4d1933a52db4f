def work():
    pass


class Queue:
    def __iter__(self):
        yield work


def expression(queue):
    return (job for job in queue)


for job in expression(Queue()):
    job()
