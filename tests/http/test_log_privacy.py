"""What callers send and handlers return never reaches a log."""

from __future__ import annotations

import logging

import httpx2
import pytest

from coatcheck.logs import JsonFormatter, TextFormatter
from tests.http.arrange import JSON, Submit

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a91"
FORMATTERS = (JsonFormatter(), TextFormatter())


async def test_no_payload_is_ever_logged(
    http: httpx2.AsyncClient, run: Submit, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    succeeded = await run("echo", {CANARY: [CANARY]}, labels={"note": CANARY})
    crashed = await run("crash", CANARY)
    gave_up = await run("give_up", CANARY)
    refused = [
        await http.post("/v1/jobs", json={"kind": "total", "input": {"customer": CANARY}}),
        await http.post("/v1/jobs", json={"kind": CANARY}),
        await http.post("/v1/jobs", json={"kind": "echo", CANARY: 1}),
        await http.post("/v1/jobs", content=f'{{"{CANARY}":'.encode(), headers=JSON),
        await http.get(f"/v1/jobs/{CANARY}"),
    ]

    # It did go through: the submitter reads it, and only the logs are without it.
    assert succeeded["result"] == {CANARY: [CANARY]}
    assert CANARY in crashed["error"]["message"]
    assert CANARY in gave_up["error"]["message"]
    assert [answer.status_code for answer in refused] == [422, 422, 422, 400, 404]
    ours = [record for record in caplog.records if record.name.startswith("coatcheck")]
    assert {record.getMessage() for record in ours} >= {"job submitted", "handler failed"}
    for record in ours:
        for formatter in FORMATTERS:
            assert CANARY not in formatter.format(record)
        # The exception travels with its record; only our formatters decide what is written of it.
        fields = {name: value for name, value in vars(record).items() if name[:4] != "exc_"}
        assert CANARY not in repr(fields)
