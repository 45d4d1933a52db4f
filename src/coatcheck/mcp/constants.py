"""Names and codes of the wire protocol."""

from __future__ import annotations

# The surface of jobs that are submitted through MCP.
SURFACE = "mcp"
PATH = "/mcp"
# In the `_meta` of a call: repeated calls with the same key are one job.
IDEMPOTENCY_KEY = "coatcheck/idempotencyKey"
# JSON-RPC error codes.
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
