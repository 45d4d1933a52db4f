"""The other systems, each run as a script in an environment of its own.

Nothing in here may import more than the standard library and the peer itself.
"""
