"""Steps with large results over HTTP: shown while they are few, else at addresses of their own."""

from __future__ import annotations

import json

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.job import Lease
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Settlement
from tests.http.problems import read_problem
from tests.http.test_artifacts import engine, folder, lease

__all__ = ["engine", "folder", "lease"]  # the fixtures

pytestmark = pytest.mark.anyio

TEXTS = ["a" * 700_000, "b" * 700_000, "c" * 100]


async def test_results_that_are_too_large_together_have_addresses(
    http: httpx2.AsyncClient, engine: Engine, lease: Lease
) -> None:
    path = f"/v1/jobs/{lease.job_id}"
    for seq, text in enumerate(TEXTS):
        step = {"seq": seq, "name": "make", "occurrence": seq, "result": text}
        answer = await http.post(f"{path}/leases/{lease.fence}/steps", json={"steps": [step]})
        assert answer.status_code == 200, answer.text
    failed = {"seq": 3, "name": "fail", "state": "failed", "error": {"code": "sour"}}
    await http.post(f"{path}/leases/{lease.fence}/steps", json={"steps": [failed]})

    steps = (await http.get(f"{path}/steps")).json()["steps"]
    assert [step.get("result") for step in steps] == [TEXTS[0], None, TEXTS[2], None]
    assert [step.get("result_omitted") for step in steps] == [None, True, None, None]
    for seq, text in enumerate(TEXTS):
        alone = await http.get(f"{path}/steps/{seq}/result")
        assert (alone.status_code, alone.json()) == (200, text)
        assert alone.headers["content-length"] == str(len(json.dumps(text)))
    for number in ("3", "4", "-1", "x", "9" * 30):
        read_problem(await http.get(f"{path}/steps/{number}/result"), 404, "not-found")

    await engine.settle([Settlement(lease, Succeeded("1"))])
    assert (await http.delete(path)).json()["removed"]["blobs"] >= 2
    read_problem(await http.get(f"{path}/steps/0/result"), 410, "gone")
