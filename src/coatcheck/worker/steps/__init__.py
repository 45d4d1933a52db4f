"""Durable steps: the context, the journal and the effects of a handler."""
