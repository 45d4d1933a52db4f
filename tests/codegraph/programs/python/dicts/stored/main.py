def on_open():
    pass


def on_close():
    pass


handlers = {}
handlers["open"] = on_open
key = "close"
handlers[key] = on_close


def fire(name):
    handlers[name]()


fire("close")
