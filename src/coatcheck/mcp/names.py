"""What is named on the wire, on both sides of it."""

from __future__ import annotations

# What jobs that came in here carry as their surface.
SURFACE = "mcp"
PATH = "/mcp"
# In the `_meta` of a call: repeat it under the same key, and it still happens once.
IDEMPOTENCY_KEY = "coatcheck/idempotencyKey"
# What a JSON-RPC error says that is none of the protocol's own.
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
