class Plugin:
    pass


def start(self):
    self.ready()


def ready(self):
    pass


Plugin.start = start
Plugin.ready = ready
Plugin().start()
