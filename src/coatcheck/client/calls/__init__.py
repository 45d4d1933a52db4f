"""The client's calls as sans-I/O logic: generators of effects, shared by both clients."""
