import functools

import web


@functools.lru_cache(maxsize=None)
def slow():
    pass


@functools.cache
def slower():
    pass


@web.route("/")
def page():
    slow()
    slower()


page()
