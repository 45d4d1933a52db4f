import settings


def before():
    pass


def task():
    pass


def chosen():
    pass


task.hook = before
task.hook()
settings.handler = chosen
settings.handle()
