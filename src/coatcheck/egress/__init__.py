"""Calling URLs that callers have provided: webhooks, and fetches.

The caller who provides a URL does not own this network, so the URL is not trusted. It may point at
this machine, at a neighbour that trusts this machine, or at a cloud's credential service. Every
outgoing call takes these steps, and there is no other way out:

1. The URL is parsed strictly (`target.py`): http or https, no credentials, a host that is a plain
   name or an address in its one canonical form. Other spellings that some resolver or browser would
   take for an address (`0x7f.1`, `017700000001`, `2130706433`) are rejected.
2. The name is resolved once, at the moment of the connection (`policy.py`). *Every* resolved
   address must be public (`address.py`): one private address rejects them all.
3. The connection is made to the checked address (`outbound.py`), never to the name, so a second
   lookup cannot return another address. TLS still verifies the name, and the `Host` header carries
   it.
4. A redirect is a response like any other. To follow it, start again at step 1.
5. The time from the lookup to the last byte, and the size of the response, are limited. Proxies
   from the environment are not used.

An operator can allow more with `COATCHECK_EGRESS_ALLOW`: names, addresses and networks.
"""
