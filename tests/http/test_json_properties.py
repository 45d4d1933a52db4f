"""Any JSON goes through unchanged; anything else is refused in one way."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from coatcheck.engine.engine import Engine
from coatcheck.http.request.body import parse_json
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Settlement
from tests.http.arrange import JSON, Submit

pytestmark = pytest.mark.anyio

# One store serves all examples of a test: each claims the job it has just submitted. And no example
# is too slow: on a busy machine all of them are.
UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda children: st.lists(children) | st.dictionaries(texts, children),
    max_leaves=20,
)


@UNHURRIED
@given(value=json_values, ascii_only=st.booleans())
@example(value={"b": 1, "a": [1.0, -0.0, 10**300, True, None]}, ascii_only=True)
@example(value=[1e22, 5e-324, 1.7976931348623157e308, 2**63, -(2**63) - 1], ascii_only=False)
async def test_any_json_reaches_the_worker_as_it_was_sent(
    http: httpx2.AsyncClient, engine: Engine, claimer: str, value: Any, ascii_only: bool
) -> None:
    body = json.dumps({"kind": "echo", "input": value}, ensure_ascii=ascii_only)

    answer = await http.post("/v1/jobs", content=body.encode(), headers=JSON)

    assert answer.status_code == 202
    [claim] = (await engine.claim(claimer, ["echo"], 2)).claims
    assert claim.lease.job_id == answer.json()["id"]
    # As texts: 1, 1.0 and true are equal in Python, and the order of keys is seen too.
    assert json.dumps(json.loads(claim.input)) == json.dumps(value)


@UNHURRIED
@given(value=json_values)
async def test_any_json_result_is_answered_as_it_was_stored(
    http: httpx2.AsyncClient, engine: Engine, claimer: str, submit: Submit, value: Any
) -> None:
    job = await submit("echo")
    [claim] = (await engine.claim(claimer, ["echo"], 2)).claims
    await engine.settle([Settlement(claim.lease, Succeeded(json.dumps(value)))])

    answer = await http.get(f"/v1/jobs/{job['id']}")

    assert json.dumps(answer.json()["result"]) == json.dumps(value)


@settings(UNHURRIED, max_examples=25)
@given(value=json_values)
async def test_a_handler_that_returns_its_input_returns_what_was_sent(
    run: Submit, value: Any
) -> None:
    job = await run("echo", value)

    assert job["state"] == "succeeded"
    assert json.dumps(job["result"]) == json.dumps(value)


fragments = st.sampled_from(
    [
        *'{}[]",:0-.eE\\u',
        " ",
        "true",
        "null",
        "NaN",
        "1e999",
        "\\ud800",
        "\\u0000",
        '"a":',
        "\ufeff",
    ]
)


@settings(UNHURRIED, max_examples=200)
@given(
    body=st.binary()
    | st.text().map(str.encode)
    | st.lists(fragments).map(lambda parts: "".join(parts).encode())
    | json_values.map(lambda value: json.dumps(value).encode())
)
@example(body=b"[" * 200_000)
@example(body=b'{"":' * 200_000)
@example(body=b"9" * 5_000)
@example(body=b"1e99999")
@example(body=b"-")
@example(body=b'"\\ud83c')
async def test_a_body_is_read_or_refused_and_never_fails_otherwise(body: bytes) -> None:
    try:
        value = parse_json(body)
    except HTTPException as refusal:
        assert refusal.status_code == 400
        assert refusal.detail
    else:
        # What was read can be written for any other parser: no NaN, no half surrogates.
        assert json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) == value
