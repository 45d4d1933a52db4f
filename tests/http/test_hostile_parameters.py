"""Hostile path, query and header values on every call of every surface: refused, never a 500.

The requests are made from the table of calls, so a new endpoint or parameter is covered by being
declared.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck.engine.submit.submission import Submission
from coatcheck.http.endpoint import Endpoint
from tests.http.every_surface import WholeApi, whole_api

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

# As they stand in a URL.
HOSTILE = {
    "a huge number": "9" * 5000,
    "a negative number": "-1",
    "a number of SQLite that is none": "9223372036854775808",
    "not a number": "NaN",
    "an exponent": "1e999",
    "NUL": "m1%00",
    "half a surrogate": "%ED%A0%80",
    "no UTF-8": "%FF%FE",
    "digits of another script": "%D9%A3",
    "a long text": "x" * 20_000,
    "dots": "%2e%2e",
    "quotes": "%27%22%60%3B--",
    "a line break": "%0D%0Aa:b",
    "nothing": "",
}
MANY = 2500
PATIENCE_S = 10.0
HEADERS = ("Range", "If-None-Match", "Last-Event-ID", "Prefer", "Accept")
HEADER_VALUES = (
    b"9" * 5000,
    b"bytes=" + b"9" * 5000 + b"-",
    b"bytes=-" + b"9" * 5000,
    b"wait=" + b"9" * 5000,
    b"\xff\xb2",
)
_PATH_NAME = re.compile(r"\{(\w+)(:\w+)?\}")


def requests(endpoint: Endpoint, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Return what is hostile about a request, and its target; one thing at a time."""
    names = [found[1] for found in _PATH_NAME.finditer(endpoint.path)]
    plain = target(endpoint.path, known)
    for name in names:
        for what, value in HOSTILE.items():
            yield f"{name}: {what}", target(endpoint.path, {**known, name: value})
    for name in sorted(endpoint.query_names):
        for what, value in HOSTILE.items():
            yield f"?{name}: {what}", f"{plain}?{name}={value}"
        yield f"?{name} {MANY} times", f"{plain}?" + "&".join([f"{name}=a:b"] * MANY)
        yield f"?{name} twice", f"{plain}?{name}=1&{name}=2"
    yield "unknown parameters", f"{plain}?" + "&".join(f"x{n}=1" for n in range(MANY))
    yield "only ampersands", f"{plain}?" + "&" * 20_000
    yield "a hostile name", f"{plain}?%00%ED%A0%80=1"


def target(path: str, values: dict[str, str]) -> str:
    return _PATH_NAME.sub(lambda found: values.get(found[1], "x1"), path)


async def known_values(api: WholeApi) -> dict[str, str]:
    """Return values of path parameters that lead to something that exists."""
    job = await api.engine.submit(Submission("echo", "1"))
    await api.engine.cancel(job.id)  # one that has ended: nothing waits for it
    return {"job_id": job.id, "fence": "1", "seq": "0", "kind": "echo", "queue": "default"}


@pytest.fixture
def store_settings() -> dict[str, str]:
    """Where the jobs are: in SQLite, unless the tests are those of another store."""
    return {}


async def test_no_path_or_query_makes_a_call_fail(
    tmp_path: Path, store_settings: dict[str, str]
) -> None:
    failed = []
    async with whole_api(tmp_path, **store_settings) as api:
        known = await known_values(api)
        for endpoint in api.endpoints:
            body: dict[str, Any] = {} if endpoint.body is None else {"json": {}}
            for what, url in requests(endpoint, known):
                status = await status_of(api, endpoint, url, **body)
                if is_failure(status, endpoint):
                    failed.append(f"{endpoint.method} {endpoint.path} {what}: {status}")
    assert failed == []


async def test_no_header_makes_a_call_fail(tmp_path: Path) -> None:
    failed = []
    async with whole_api(tmp_path) as api:
        known = await known_values(api)
        for endpoint in api.endpoints:
            body: dict[str, Any] = {} if endpoint.body is None else {"json": {}}
            declared = {each.name for each in endpoint.parameters if each.location == "header"}
            for name in sorted({*HEADERS, *declared}):
                for value in HEADER_VALUES:
                    headers = [(name.encode(), value)]
                    url = target(endpoint.path, known)
                    status = await status_of(api, endpoint, url, headers=headers, **body)
                    if is_failure(status, endpoint):
                        failed.append(f"{endpoint.method} {endpoint.path} {name}: {value[:20]!r}")
    assert failed == []


async def status_of(api: WholeApi, endpoint: Endpoint, url: str, **options: Any) -> int:
    """Return the status of the answer; 0 where a call that has nothing to wait for gives none."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            headers = [*options.pop("headers", ()), (b"prefer", b"respond-async")]
            answer = await api.http.request(endpoint.method, url, headers=headers, **options)
            return answer.status_code
    except TimeoutError:
        return 0


def is_failure(status: int, endpoint: Endpoint) -> bool:
    """Tell whether a call failed; what is handed on to a service that is away is 502 to 504."""
    hands_on = endpoint.forwards_query or endpoint.tag == "foreman"
    return status in (0, 500) or (status > 500 and not hands_on)
