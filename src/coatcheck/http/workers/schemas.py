"""The shapes of what a remote worker takes and says."""

from __future__ import annotations

from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.json_schema import (
    ANYTHING,
    COUNT,
    NAME,
    TEXT,
    TIME,
    described,
    listed,
    maybe,
    whole,
)
from coatcheck.http.workers.handlers import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    ProgressRequest,
    StepError,
    StepRequest,
    StepsRequest,
)

_CLAIM = whole(
    {
        "job_id": TEXT,
        "fence": COUNT,
        "tenant": NAME,
        "kind": TEXT,
        "queue": TEXT,
        "attempt": COUNT,
        "max_attempts": COUNT,
        "timeout_s": {"type": "number"},
        "deadline_at": maybe(TIME),
        "correlation_id": maybe(TEXT),
        "traceparent": maybe(TEXT),
        "links": {"type": "object", "additionalProperties": TEXT},
        "input": ANYTHING,
    }
)


def work_components() -> dict[str, Schema]:
    """Return every named shape."""
    return {
        "Claims": whole({"lease_s": {"type": "number"}, "claims": listed(ref("Claim"))}),
        "Claim": _CLAIM,
        "ClaimRequest": ClaimRequest.model_json_schema(),
        "CompleteRequest": CompleteRequest.model_json_schema(),
        "FailRequest": FailRequest.model_json_schema(),
        "ProgressRequest": ProgressRequest.model_json_schema(),
        "StepRequest": described(StepRequest, started_at=maybe(TIME)),
        "StepError": described(StepError),
        "StepsRequest": described(StepsRequest),
        "Heartbeat": whole(
            {"lease_s": {"type": "number"}, "cancel_requested": {"type": "boolean"}}
        ),
    }
