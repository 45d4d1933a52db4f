"""Hostile bytes against a real server, as a scanner or an attacker with a socket may send them."""
