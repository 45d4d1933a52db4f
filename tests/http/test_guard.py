"""The loopback guard: web pages and rebound host names stay outside."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.http.guard import is_loopback, refuse_without_keys
from tests.http.arrange import JSON, StoredJobs
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

GOOD = b'{"kind":"echo"}'

LOOPBACK_HOSTS = [
    "localhost",
    "localhost:8080",
    "LocalHost:8080",
    "localhost.",
    "localhost.:8080",
    "jobs.localhost:8080",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1:65535",
    "127.1.2.3:8080",
    "[::1]",
    "[::1]:8080",
    "[0:0:0:0:0:0:0:1]:8080",
]
FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "127.0.0.1.evil.example:8080",
    "127.0.0.1.nip.io",
    "notlocalhost",
    "localhost@evil.example",
    "192.168.0.10:8080",
    "10.0.0.1",
    "0.0.0.0:8080",
    "169.254.169.254",
    "[::]:8080",
    "[fe80::1]",
    "[2001:db8::1]:8080",
    "::1",
    "2130706433",
    "0x7f.1",
    "",
    ":8080",
    " ",
]
MALFORMED = ["[", "[::1", "::1]", "[evil]"]


@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
async def test_a_loopback_host_is_served(http: httpx2.AsyncClient, host: str) -> None:
    answer = await http.post("/v1/jobs", content=GOOD, headers={**JSON, "Host": host})

    assert answer.status_code == 202


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
async def test_a_host_name_that_was_rebound_to_loopback_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, host: str
) -> None:
    answer = await http.post("/v1/jobs", content=GOOD, headers={**JSON, "Host": host})

    read_problem(answer, 403, "not-loopback")
    assert await stored_jobs() == []


async def test_a_request_without_a_host_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    request = http.build_request("POST", "/v1/jobs", content=GOOD, headers=JSON)
    del request.headers["Host"]

    answer = await http.send(request)

    read_problem(answer, 403, "not-loopback")
    assert await stored_jobs() == []


@pytest.mark.parametrize("name", ["Host", "Origin"])
@pytest.mark.parametrize("value", MALFORMED)
async def test_a_malformed_address_is_refused_and_no_fault_of_the_server(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, name: str, value: str
) -> None:
    if name == "Origin":
        value = f"http://{value}"

    answer = await http.post("/v1/jobs", content=GOOD, headers={**JSON, name: value})

    read_problem(answer, 403, "not-loopback")
    assert await stored_jobs() == []


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:3000", "https://localhost", "http://127.0.0.1:8080", "http://[::1]:8080"],
)
async def test_a_page_of_this_machine_may_ask(http: httpx2.AsyncClient, origin: str) -> None:
    answer = await http.post("/v1/jobs", content=GOOD, headers={**JSON, "Origin": origin})

    assert answer.status_code == 202


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://192.168.0.10:8080",
        "null",
        "",
        "file://",
        "localhost",
        "chrome-extension://abcdefghijklmnop",
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/healthz"])
async def test_a_page_of_another_origin_may_not(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, path: str, origin: str
) -> None:
    method = "POST" if path == "/v1/jobs" else "GET"

    answer = await http.request(method, path, content=GOOD, headers={**JSON, "Origin": origin})

    read_problem(answer, 403, "not-loopback")
    assert await stored_jobs() == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9"])
def test_a_server_may_listen_on_loopback(host: str) -> None:
    assert is_loopback(host)
    refuse_without_keys(host, has_keys=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "*", "192.168.0.10", "jobs.example"])
def test_a_server_without_keys_may_not_listen_elsewhere(host: str) -> None:
    with pytest.raises(ConfigurationError, match="refusing to listen"):
        refuse_without_keys(host, has_keys=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1"])
def test_in_production_loopback_is_no_excuse(host: str) -> None:
    with pytest.raises(ConfigurationError, match="coatcheck keys create"):
        refuse_without_keys(host, has_keys=False, everywhere=True)
    refuse_without_keys(host, has_keys=True, everywhere=True)
