"""Bodies that are not JSON, or that two parsers would not read alike: 400, and nothing changed."""

from __future__ import annotations

import httpx2
import pytest
from starlette.exceptions import HTTPException

from coatcheck.http.request.body import DEPTH_LIMIT, parse_json
from tests.http.arrange import JSON, StoredJobs
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

BAD_BODIES = {
    "empty": b"",
    "blank": b"  ",
    "cut short": b'{"kind":"echo","input":{',
    "two values": b'{"kind":"echo"}{"kind":"echo"}',
    "trailing comma": b'{"kind":"echo",}',
    "single quotes": b"{'kind':'echo'}",
    "comment": b'{"kind":"echo"} // please',
    "unquoted text": b"kind=echo",
    "duplicate key": b'{"kind":"echo","kind":"nothing"}',
    "duplicate key deep inside": b'{"kind":"echo","input":[{"a":{"b":1,"b":1}}]}',
    "duplicate key written two ways": b'{"kind":"echo","input":{"a":1,"\\u0061":2}}',
    "NaN": b'{"kind":"echo","input":NaN}',
    "Infinity": b'{"kind":"echo","input":[Infinity]}',
    "-Infinity": b'{"kind":"echo","input":{"x":-Infinity}}',
    "a number beyond any float": b'{"kind":"echo","input":1e999}',
    "a negative number beyond any float": b'{"kind":"echo","input":-1e999}',
    "an integer too long to read": b'{"kind":"echo","input":' + b"9" * 5000 + b"}",
    "NUL in a text": b'{"kind":"echo","input":"a\\u0000b"}',
    "NUL in a key": b'{"kind":"echo","input":{"\\u0000":1}}',
    "NUL as it is": b'{"kind":"echo","input":"\x00"}',
    "NUL in the kind": b'{"kind":"echo\\u0000"}',
    "first half of a surrogate pair": b'{"kind":"echo","input":"\\ud83c"}',
    "second half of a surrogate pair": b'{"kind":"echo","input":{"\\udf9f":1}}',
    "surrogates the wrong way round": b'{"kind":"echo","input":"\\udf9f\\ud83c"}',
    "surrogate as UTF-8": b'{"kind":"echo","input":"\xed\xa0\x80"}',
    "bad UTF-8": b'{"kind":"echo","input":"\xff"}',
    "overlong UTF-8": b'{"kind":"echo","input":"\xc0\xaf"}',
    "UTF-8 cut short": b'{"kind":"echo","input":"\xe2\x82',
    "Latin-1": '{"kind":"echo","input":"é"}'.encode("latin-1"),
    "UTF-16": '{"kind":"echo"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"kind":"echo"}',
    "raw line break in a text": b'{"kind":"echo","input":"a\nb"}',
    "nested one too deep": b'{"kind":"echo","input":' + b"[" * 64 + b"]" * 64 + b"}",
    "objects nested one too deep": b'{"a":' * 65 + b"1" + b"}" * 65,
    "nested 100,000 deep": b'{"kind":"echo","input":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "100,000 deep and never closed": b'{"kind":"echo","input":' + b"[" * 100_000,
    "objects nested 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_body_that_is_not_strict_json_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, body: bytes
) -> None:
    answer = await http.post("/v1/jobs", content=body, headers=JSON)

    read_problem(answer, 400, "bad-request")
    assert await stored_jobs() == []


async def test_a_refusal_says_where_without_repeating_what_was_sent(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/v1/jobs", content=b'{"kind":\n  "my secret', headers=JSON)

    detail = read_problem(answer, 400, "bad-request")["detail"]
    assert "line 2" in detail
    assert "my secret" not in answer.text


async def test_the_server_answers_on_after_a_body_nested_without_end(
    http: httpx2.AsyncClient,
) -> None:
    await http.post("/v1/jobs", content=b"[" * 1_000_000, headers=JSON)

    answer = await http.post("/v1/jobs", json={"kind": "nothing"})

    assert answer.status_code == 202


@pytest.mark.parametrize("leaf", ["", "1", '"text"', "{}"], ids=repr)
async def test_a_body_may_nest_as_deep_as_the_limit(http: httpx2.AsyncClient, leaf: str) -> None:
    # The body itself is one level, and an empty object as the leaf is another.
    levels = DEPTH_LIMIT - 1 - (leaf == "{}")
    body = f'{{"kind":"echo","input":{"[" * levels}{leaf}{"]" * levels}}}'

    answer = await http.post("/v1/jobs", content=body.encode(), headers=JSON)

    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("innermost", "nested"), [("", 65), ("1", 65), ('{"a":1}', 64), ("{}", 64)], ids=repr
)
def test_the_depth_counts_containers_whether_or_not_they_are_empty(
    innermost: str, nested: int
) -> None:
    with pytest.raises(HTTPException) as refusal:
        parse_json(("[" * nested + innermost + "]" * nested).encode())

    assert refusal.value.status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b'\n\t {"kind" : "echo" , "input" : 1}\r\n',
        '{"kind":"echo","input":"naïve 🎟️"}'.encode(),
        b'{"kind":"echo","input":"\\ud83c\\udf9f"}',
        b'{"kind":"echo","input":' + b"9" * 4000 + b"}",
        b'{"kind":"echo","input":-0.0}',
        b'{"kind":"echo","input":5e-324}',
    ],
    ids=["blanks", "unicode", "surrogate pair", "long integer", "negative zero", "tiny number"],
)
async def test_unusual_json_is_json(http: httpx2.AsyncClient, body: bytes) -> None:
    answer = await http.post("/v1/jobs", content=body, headers=JSON)

    assert answer.status_code == 202
