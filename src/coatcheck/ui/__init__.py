"""The cockpit: pages at `/ui` to see and steer the work.

They are files, and everything they show comes from the public API with the key that its reader
typed in; there is nothing here that a key could not do by itself. The key is kept by the page and
sent as a header, never as a cookie, so no other page can make a browser use it.
"""
