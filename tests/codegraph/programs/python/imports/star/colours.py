from shades import *

__all__ = ["red", "mix"]


def red():
    blue()


def hidden():
    pass
