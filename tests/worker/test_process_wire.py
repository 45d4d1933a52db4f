"""The frames between a worker and its processes."""

from __future__ import annotations

import pytest

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Claim, Failure, Lease, Progress, Terms
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded, Waiting
from coatcheck.model.state import Reason
from coatcheck.store.base import Report
from coatcheck.worker.processes.wire import (
    Splitter,
    WireMessage,
    claim_fields,
    frame,
    outcome_fields,
    read_claim,
    read_outcome,
    read_report,
    report_fields,
)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_are_reassembled(size: int) -> None:
    sent = [({"type": "job", "n": n}, bytes([n]) * n * 50) for n in range(5)]
    data = b"".join(frame(*message) for message in sent)
    splitter = Splitter()
    arrived: list[WireMessage] = []
    for start in range(0, len(data), size):
        arrived += splitter.feed(data[start : start + size])
    assert [tuple(message) for message in arrived] == sent


@pytest.mark.parametrize("nonsense", [b"?", b"[]", b"{}", b"\xff"])
def test_invalid_messages_are_rejected(nonsense: bytes) -> None:
    begun = frame({"type": "begun", "number": 1})
    arriving = Splitter().feed(begun + len(nonsense).to_bytes(4) + bytes(4) + nonsense)
    assert next(arriving).header["type"] == "begun"  # otherwise it would go unnoticed
    with pytest.raises(ValueError):
        next(arriving)


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded('{"a": "ü"}'),
        GaveUp(Failure("code", "words")),
        Errored(Failure("code", "words", "detail", retryable=True), 17, Reason.TIMEOUT),
        Released(),
        Released(17, Failure("retry", "nobody is there", retryable=True)),
        Waiting(5, (("a", "b"), ("c",))),
    ],
)
def test_outcomes_round_trip(outcome: Outcome) -> None:
    fields, body = outcome_fields(outcome)
    [message] = Splitter().feed(frame({"type": "done", **fields}, body))
    assert read_outcome(message.header, message.body) == outcome


def test_claims_and_reports_round_trip() -> None:
    claim = Claim(Lease("t", "j", 3), "k", "api", "q", '"ü"', 2, Terms(), 5, "c", None)
    report = Report(Progress(1, 2.5, "m"), "p", (NewJobEvent(EventType.LOG, "{}"),))
    header = {"type": "job", "claim": claim_fields(claim), "report": report_fields(report)}
    [message] = Splitter().feed(frame(header, claim.input.encode()))
    assert read_claim(message.header["claim"], message.body) == claim
    assert read_report(message.header["report"]) == report
    assert read_report(report_fields(None)) is None
