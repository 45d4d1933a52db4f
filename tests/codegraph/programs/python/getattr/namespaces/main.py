import importlib


def work():
    pass


globals()["work"]()
importlib.import_module("other").run()
