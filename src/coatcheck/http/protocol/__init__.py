"""The HTTP/1.1 protocol: strict framing and client timeouts."""
