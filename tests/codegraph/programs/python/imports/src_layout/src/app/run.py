import types

from app.core import start


def go():
    start()
    types.new_class("A")
