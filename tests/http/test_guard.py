"""The loopback guard: web pages and rebound host names stay outside."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.errors import ConfigurationError
from coatcheck.http.app import create_http_app
from coatcheck.http.auth.loopback import check_bind_address, is_loopback
from tests.http.arrange import JSON, StoredJobs, connect
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


OWN_PAGES = [
    ("localhost", "http://localhost"),
    ("localhost", "https://localhost"),
    ("localhost:8080", "http://localhost:8080"),
    ("LOCALHOST.:8080", "http://localhost:8080"),
    ("127.0.0.1:80", "http://127.0.0.1"),
    ("[::1]:8080", "http://[::1]:8080"),
]
OTHER_PAGES = [
    ("localhost:8080", "http://localhost:3000"),
    ("localhost:8080", "http://localhost"),
    ("localhost:8080", "http://127.0.0.1:8080"),
    ("127.0.0.1:8080", "http://127.0.0.2:8080"),
    ("localhost:8080", "http://app.localhost:8080"),
    ("localhost", "https://localhost:80"),
    ("localhost:8080", "http://localhost:99999"),
    ("localhost:8080", "ftp://localhost:8080"),
]


@pytest.mark.parametrize(("host", "origin"), OWN_PAGES)
@pytest.mark.parametrize("site", [None, "same-origin", "none"])
async def test_a_page_of_this_server_may_ask(
    http: httpx2.AsyncClient, host: str, origin: str, site: str | None
) -> None:
    fetch = {} if site is None else {"Sec-Fetch-Site": site}
    headers = {**JSON, "Host": host, "Origin": origin, **fetch}
    answer = await http.post("/v1/jobs", content=GOOD, headers=headers)

    assert answer.status_code == 202


@pytest.mark.parametrize(("host", "origin"), OTHER_PAGES)
async def test_a_page_of_another_server_on_this_machine_may_not(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, host: str, origin: str
) -> None:
    headers = {**JSON, "Host": host, "Origin": origin}
    answer = await http.post("/v1/jobs", content=GOOD, headers=headers)

    read_problem(answer, 403, "not-loopback")
    assert await stored_jobs() == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "something new"])
@pytest.mark.parametrize("path", ["/v1/jobs", "/healthz", "/docs"])
@pytest.mark.parametrize("origin", [None, "http://localhost"])
async def test_what_a_browser_sends_for_another_site_is_refused(
    http: httpx2.AsyncClient, path: str, site: str, origin: str | None
) -> None:
    headers = {"Sec-Fetch-Site": site} | ({} if origin is None else {"Origin": origin})

    read_problem(await http.get(path, headers=headers), 403, "not-loopback")


@pytest.mark.parametrize("every", [False, True])
async def test_pages_of_loopback_origins_that_are_named_may_ask(
    engine: Engine, every: bool
) -> None:
    page = "http://localhost:3000"
    named = ["*"] if every else [page, "https://app.example"]
    async with connect(create_http_app(engine, named)) as http:
        for origin, status in (
            (page, 202),
            ("http://localhost:4000", 202 if every else 403),
            ("https://app.example", 403),  # without a key, only this machine
        ):
            headers = {**JSON, "Origin": origin, "Sec-Fetch-Site": "same-site"}
            answer = await http.post("/v1/jobs", content=GOOD, headers=headers)
            assert answer.status_code == status


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
    check_bind_address(host, has_keys=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "*", "192.168.0.10", "jobs.example"])
def test_a_server_without_keys_may_not_listen_elsewhere(host: str) -> None:
    with pytest.raises(ConfigurationError, match="refusing to listen"):
        check_bind_address(host, has_keys=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1"])
def test_in_production_loopback_is_no_excuse(host: str) -> None:
    with pytest.raises(ConfigurationError, match="coatcheck keys create"):
        check_bind_address(host, has_keys=False, everywhere=True)
    check_bind_address(host, has_keys=True, everywhere=True)
