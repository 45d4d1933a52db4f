"""Hostile bytes against a real server, as a scanner or somebody with a socket may send them."""
