"""The cockpit: the web interface at `/ui`.

It consists of static files. All its data comes from the public API with the key that the user
signed in with, so the cockpit can do nothing that the key could not do by itself. The page stores
the key and sends it as a header, never as a cookie, so no other page can make a browser use it.
"""
