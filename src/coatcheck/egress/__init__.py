"""Calling addresses that somebody else has named: webhooks, and whatever fetches.

Who names an address is not who owns this network, so an address is nothing to be trusted: it may
point at this very machine, at a neighbour that trusts it, or at the service that hands out a
cloud's credentials. Every call goes through these steps, and there is no other way out:

1. The URL is read strictly (`target.py`): http or https, no credentials in it, a host that is
   a plain name or an address in its one canonical form. What a resolver or a browser would take
   for an address all the same (`0x7f.1`, `017700000001`, `2130706433`) is refused.
2. The name is resolved once, at the moment of the connection (`guard.py`). *Every* address that
   comes back must be a public one (`address.py`): one bad address among good ones refuses them all.
3. The connection is made to the address that was checked (`outbound.py`), never to the name, so
   nobody can answer a second lookup with something else. The name is still what TLS verifies and
   what the `Host` header says.
4. A redirect is an answer like any other: whoever wants to follow it asks again, from step 1.
5. The time from resolving to the last byte, and the bytes that are read, are bounded. Proxies
   from the environment are not used.

An operator can open doors with `COATCHECK_EGRESS_ALLOW`: names, addresses and networks.
"""
