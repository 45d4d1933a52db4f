"""Parameters that several calls have."""

from __future__ import annotations

from coatcheck.http.endpoint import Parameter

KEY = Parameter(
    "Idempotency-Key",
    "Repeat a request under the same key, and it still happens once.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    place="header",
)
TRACEPARENT = Parameter(
    "traceparent",
    "The trace this belongs to (W3C Trace Context); kept with the job.",
    {"type": "string"},
    place="header",
)
