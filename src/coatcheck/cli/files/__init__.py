"""The files that commands send to a server."""
