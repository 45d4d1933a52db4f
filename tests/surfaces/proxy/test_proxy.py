"""Endpoints made durable by a rule, in front of services on a real socket."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from typing import Any

import apsw
import httpx2
import pytest

from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import Reason, State
from coatcheck.relay.call import StoredCall
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from tests.relay.upstreams import Got, in_turn, says

from .conftest import Proxied

pytestmark = pytest.mark.anyio


async def test_fast_response_passes_through_and_is_stored(proxied: Proxied) -> None:
    body = b'{"pages": 3}'
    async with proxied(says("201 Created", body, "Content-Type: application/json")) as (up, server):
        answer = await server.http.post("/reports/q3?draft=1&tenant=x", json={"year": 2026})
        assert (answer.status_code, answer.content) == (201, body)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-length"] == str(len(body))
        [got] = up.got
        assert (got.method, got.path) == ("POST", "/reports/q3?draft=1&tenant=x")
        assert json.loads(got.body) == {"year": 2026}

        job_id = answer.headers["coatcheck-job"]
        job = (await server.http.get(f"/v1/jobs/{job_id}?wait=30")).json()
        assert (job["kind"], job["surface"], job["state"]) == (
            "proxy.post-reports",
            "proxy",
            "succeeded",
        )
        later = await server.http.get(f"/v1/jobs/{job_id}/result")
        assert (later.status_code, later.content) == (201, body)
        assert later.headers["content-type"] == "application/json"
        assert later.headers["coatcheck-job"] == job_id


async def test_slow_response_is_fetched_later(proxied: Proxied) -> None:
    go_on = asyncio.Event()

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await says("203 Late", b"late")(got, writer)

    async with proxied(script, wait=0.05) as (_, server):
        answer = await server.http.post("/reports/slow")
        job_id = answer.headers["coatcheck-job"]
        assert answer.status_code == 202
        assert answer.headers["location"] == f"/v1/jobs/{job_id}"
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["id"] == job_id
        assert (await server.http.get(f"/v1/jobs/{job_id}/result")).status_code == 202
        go_on.set()
        later = await server.http.get(f"/v1/jobs/{job_id}/result?wait=30")
        assert (later.status_code, later.content) == (203, b"late")


async def test_prefer_respond_async_returns_202_at_once(proxied: Proxied) -> None:
    async with proxied(says(), works=False) as (up, server):
        answer = await server.http.post("/reports/x", headers={"Prefer": "respond-async"})
        assert answer.status_code == 202
        assert answer.headers["preference-applied"] == "respond-async"
        assert up.got == []


async def test_hop_by_hop_headers_are_not_forwarded(proxied: Proxied) -> None:
    script = says(
        "200 OK",
        b"x",
        "Connection: keep-alive, X-Hop",
        "X-Hop: 1",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: Basic",
        "Upgrade: h2c",
        "X-End: 2",
    )
    async with proxied(script) as (up, server):
        hop = [
            (b"Connection", b"X-Mine"),
            (b"X-Mine", b"1"),
            (b"TE", b"trailers"),
            (b"X-Kept", "é".encode()),
        ]
        answer = await server.http.post("/reports/x", headers=hop)
        names = set(answer.headers)
        assert not names & {"x-hop", "keep-alive", "proxy-authenticate", "upgrade"}
        assert answer.headers["x-end"] == "2"
        [got] = up.got
        assert got.header("x-mine") is None
        assert got.header("te") is None
        assert got.header("x-kept") == "Ã©"
        assert got.header("via") == "1.1 coatcheck"
        assert got.header("host") == up.url.removeprefix("http://")


async def test_chunked_response_with_trailers(proxied: Proxied) -> None:
    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
            b"3\r\none\r\n3;ext=1\r\ntwo\r\n0\r\nX-Sum: 7\r\n\r\n"
        )

    async with proxied(script) as (_, server):
        answer = await server.http.post("/reports/x")
        assert answer.content == b"onetwo"
        assert not {"trailer", "x-sum"} & set(answer.headers)


async def test_chunked_request(proxied: Proxied) -> None:
    async def pieces() -> Any:
        yield b"one"
        yield b"two"

    async with proxied(says()) as (up, server):
        await server.http.post("/reports/x", content=pieces())
        [got] = up.got
        assert got.body == b"onetwo"
        assert (got.header("content-length"), got.header("transfer-encoding")) == ("6", None)


async def test_compressed_bodies_pass_untouched(proxied: Proxied) -> None:
    packed = gzip.compress(b"hello" * 100)
    async with proxied(says("200 OK", packed, "Content-Encoding: gzip")) as (up, server):
        headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
        async with server.http.stream(
            "POST", "/reports/x", content=packed, headers=headers
        ) as answer:
            assert b"".join([piece async for piece in answer.aiter_raw()]) == packed
        assert up.got[0].body == packed
        assert up.got[0].header("accept-encoding") == "gzip"


async def test_no_headers_are_added_beyond_our_own(proxied: Proxied) -> None:
    async with proxied(says(), "GET /x") as (up, server):
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()
        names = {name for name, _ in up.got[0].headers}
        assert names == {"host", "idempotency-key", "traceparent", "via"}


async def test_multipart_passes_unchanged(proxied: Proxied) -> None:
    async with proxied(says()) as (up, server):
        files = {"file": ("a.bin", bytes(range(256)) * 400, "application/octet-stream")}
        await server.http.post("/reports/x", files=files, data={"name": "x"})
        [got] = up.got
        boundary = (got.header("content-type") or "").partition("boundary=")[2]
        assert got.body.startswith(f"--{boundary}\r\n".encode())
        assert bytes(range(256)) * 400 in got.body


async def test_redirects_are_not_followed(proxied: Proxied) -> None:
    async with proxied(says("303 See Other", b"", "Location: /elsewhere")) as (up, server):
        answer = await server.http.post("/reports/x")
        assert (answer.status_code, answer.headers["location"]) == (303, "/elsewhere")
        assert len(up.got) == 1


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_responses_without_a_body(proxied: Proxied, status: str) -> None:
    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(f'HTTP/1.1 {status}\r\nETag: "1"\r\n\r\n'.encode())

    async with proxied(script, "GET /x") as (_, server):
        answer = await server.http.get("/x")
        assert (answer.status_code, answer.content) == (int(status[:3]), b"")
        assert answer.headers["etag"] == '"1"'
        job_id = answer.headers["coatcheck-job"]
        later = await server.http.get(f"/v1/jobs/{job_id}/result?wait=30")
        assert (later.status_code, later.content) == (int(status[:3]), b"")


async def test_get_rule_includes_head(proxied: Proxied) -> None:
    async with proxied(says(body=b"x" * 99), "GET /x") as (up, server):
        answer = await server.http.head("/x")
        assert (answer.headers["content-length"], answer.content) == ("99", b"")
        assert up.got[0].method == "HEAD"
        job_id = answer.headers["coatcheck-job"]
        later = await server.http.get(f"/v1/jobs/{job_id}/result?wait=30")
        assert (later.status_code, later.content) == (200, b"")


async def test_connections_are_reused_for_safe_calls_only(proxied: Proxied) -> None:
    async with proxied(says(), "GET /x", "POST /x") as (up, server):
        for _ in range(3):
            assert (await server.http.get("/x")).status_code == 200
        assert up.connections == 1
        for _ in range(2):
            assert (await server.http.post("/x")).status_code == 200
        assert up.connections == 3


async def test_only_selected_headers_are_forwarded(proxied: Proxied) -> None:
    async with proxied(says(), headers=["Accept"]) as (up, server):
        sent = {"Accept": "text/csv", "X-Noise": "1", "Authorization": "Bearer x"}
        await server.http.post("/reports/x", headers=sent)
        [got] = up.got
        assert got.header("accept") == "text/csv"
        assert got.header("x-noise") is None
        assert got.header("authorization") is None


CANARIES = {
    "Authorization": "Bearer canary-one",
    "Cookie": "session=canary-two",
    "X-Api-Key": "canary-three",
    "X-Session": "canary-four",
}


@pytest.mark.parametrize("credentials", ["seal", "drop"])
async def test_credentials_are_not_stored_in_clear(
    proxied: Proxied, tmp_path: Any, credentials: str
) -> None:
    script = says("200 OK", b"canary-five", "Set-Cookie: sid=canary-six")
    keys = {"credentials": credentials, "secret_headers": ["X-Session"]}
    async with proxied(script, **keys) as (up, server):
        answer = await server.http.post("/reports/x", headers=CANARIES)
        assert answer.content == b"canary-five"
        for name, value in CANARIES.items():
            given = up.got[0].header(name.lower())
            assert given == (value if credentials == "seal" else None)
        job_id = answer.headers["coatcheck-job"]
        await server.engine.wait(job_id, 30)
        shown = (await server.http.get(f"/v1/jobs/{job_id}", headers=CANARIES)).text
        assert "canary" not in shown
        later = await server.http.get(f"/v1/jobs/{job_id}/result", headers=CANARIES)
        assert later.headers["set-cookie"] == "sid=canary-six"
        connection = apsw.Connection(str(tmp_path / "jobs.db"))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or b"canary" not in path.read_bytes(), path


async def test_response_is_only_for_its_caller(proxied: Proxied) -> None:
    async with proxied(says(body=b"yours" * 10_000)) as (_, server):
        mine = {"Cookie": "session=mine"}
        answer = await server.http.post("/reports/x", headers=mine)
        job_id = answer.headers["coatcheck-job"]
        for path in (f"/v1/jobs/{job_id}/result?wait=30", f"/v1/jobs/{job_id}/artifacts/body"):
            other = await server.http.get(path, headers={"Cookie": "session=other"})
            assert (other.status_code, b"yours" in other.content) == (404, False)
            assert (await server.http.get(path)).status_code == 404
            assert (await server.http.get(path, headers=mine)).content == answer.content


async def test_another_tenant_gets_404(proxied: Proxied) -> None:
    async with proxied(says()) as (up, server):
        keys = {}
        for tenant in ("ada", "bob"):
            _, shown = await server.engine.authenticator.create_key(
                tenant, ["jobs:read", "jobs:write"]
            )
            keys[tenant] = {"Authorization": f"Bearer {shown}"}
        assert (await server.http.post("/reports/x")).status_code == 401
        answer = await server.http.post("/reports/x", headers=keys["ada"])
        assert answer.content == b"hello"
        assert up.got[0].header("authorization") is None  # it was for us
        path = f"/v1/jobs/{answer.headers['coatcheck-job']}/result?wait=30"
        assert (await server.http.get(path, headers=keys["bob"])).status_code == 404
        assert (await server.http.get(path, headers=keys["ada"])).content == b"hello"


async def test_our_key_is_not_forwarded_but_other_credentials_are(proxied: Proxied) -> None:
    async with proxied(says()) as (up, server):
        _, ours = await server.engine.authenticator.create_key("ada", ["jobs:read", "jobs:write"])
        both = {"X-Api-Key": ours, "Authorization": "Bearer theirs"}
        answer = await server.http.post("/reports/x", headers=both)
        assert answer.status_code == 200
        assert up.got[0].header("authorization") == "Bearer theirs"
        assert up.got[0].header("x-api-key") is None
        path = f"/v1/jobs/{answer.headers['coatcheck-job']}/result?wait=30"
        assert (await server.http.get(path, headers={"X-Api-Key": ours})).status_code == 404
        assert (await server.http.get(path, headers=both)).content == b"hello"


async def test_unlisted_status_is_not_retried(proxied: Proxied) -> None:
    script = in_turn(says("500 Oops", b"oops"), says())
    async with proxied(script, retry_statuses=[503]) as (up, server):
        answer = await server.http.post("/reports/x")
        assert (answer.status_code, answer.content) == (500, b"oops")
        job = await server.engine.wait(answer.headers["coatcheck-job"], 30)
        assert (job.state, job.attempt, len(up.got)) == (State.SUCCEEDED, 1, 1)


async def test_listed_status_is_retried_with_the_same_key(proxied: Proxied) -> None:
    script = in_turn(says("503 Busy", b"no", "Retry-After: 0"), says())
    async with proxied(script, retry_statuses=[503]) as (up, server):
        answer = await server.http.post("/reports/x")
        assert (answer.status_code, answer.content) == (200, b"hello")
        first, second = up.got
        assert first.header("idempotency-key") == second.header("idempotency-key")
        traces = [(got.header("traceparent") or "").split("-") for got in up.got]
        assert traces[0][1] == traces[1][1]
        assert traces[0][2] != traces[1][2]


async def test_traceparent_is_forwarded(proxied: Proxied) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with proxied(says()) as (up, server):
        await server.http.post("/reports/x", headers={"traceparent": trace, "tracestate": "a=b"})
        assert (up.got[0].header("traceparent"), up.got[0].header("tracestate")) == (trace, "a=b")


async def hang_up(_got: Got, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def garbage(_got: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("script", [hang_up, garbage])
async def test_broken_post_is_not_repeated(proxied: Proxied, script: Any) -> None:
    async with proxied(script) as (up, server):
        answer = await server.http.post("/reports/x")
        assert (answer.status_code, answer.json()["type"]) == (502, "urn:coatcheck:broken-off")
        job = await server.engine.get(answer.headers["coatcheck-job"])
        assert (job.state, job.attempt, len(up.got)) == (State.FAILED, 1, 1)


@pytest.mark.parametrize(
    ("match", "keys"), [("GET /reports/*", {}), ("POST /reports/*", {"repeatable": True})]
)
async def test_repeatable_call_is_repeated(
    proxied: Proxied, match: str, keys: dict[str, Any]
) -> None:
    async with proxied(in_turn(hang_up, says()), match, **keys) as (up, server):
        answer = await server.http.request(match.partition(" ")[0], "/reports/x")
        assert (answer.status_code, answer.content, len(up.got)) == (200, b"hello", 2)


async def test_upstream_timeout_is_504(proxied: Proxied) -> None:
    async def script(_got: Got, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with proxied(script, timeout=0.1) as (up, server):
        answer = await server.http.post("/reports/x")
        assert (answer.status_code, answer.json()["type"]) == (
            504,
            "urn:coatcheck:upstream-timeout",
        )
        await asyncio.wait_for(up.ended.wait(), 30)


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_broken_stream_is_visible_to_the_caller(proxied: Proxied, framing: str) -> None:
    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n5\r\nfirst\r\n".encode())
        await writer.drain()
        writer.close()

    async with proxied(script, "GET /x") as (up, server):
        async with server.http.stream("GET", "/x") as answer:
            job_id = answer.headers["coatcheck-job"]
            with pytest.raises(httpx2.RemoteProtocolError):
                await answer.aread()
        job = await server.engine.wait(job_id, 30)
        assert (job.state, len(up.got)) == (State.FAILED, 1)
        assert (await server.http.get(f"/v1/jobs/{job_id}/result")).status_code == 409


async def test_submitted_job_is_checked_against_its_rule(proxied: Proxied) -> None:
    async with proxied(says()) as (up, server):
        for path in ("/admin", "/reports/../admin", "/reports/%2e%2e/admin"):
            call = StoredCall(method="POST", path=path)
            asked = {"kind": "proxy.post-reports", "input": json.loads(call.model_dump_json())}
            made = (await server.http.post("/v1/jobs", json=asked)).json()
            job = await server.engine.wait(made["id"], 30)
            assert (job.error and job.error.code) == "not-for-this-rule"
        assert up.got == []


async def test_path_is_sent_as_checked(proxied: Proxied) -> None:
    marks = [chr(code) for code in range(0x21, 0x7F)]
    paths = [f"/reports/{name}" for mark in marks for name in (mark, f"a{mark}b", f"a?b{mark}")]
    async with proxied(says()) as (up, server):
        sent = []
        for path in paths:
            asked = {"kind": "proxy.post-reports", "input": {"method": "POST", "path": path}}
            made = await server.http.post("/v1/jobs", json=asked)
            if "#" in path:  # the rest would not be sent: /reports/# goes to /reports/
                assert made.status_code == 422, path
                continue
            job = await server.engine.wait(made.json()["id"], 30)
            if job.state is State.SUCCEEDED:
                sent.append(path)
            else:
                assert (job.error and job.error.code) == "not-for-this-rule", path
        # An empty query is as good as none.
        received = [got.path.partition("?")[::2] for got in up.got]
        assert received == [path.partition("?")[::2] for path in sent]
        assert len(sent) > 3 * len(marks) - 10


async def test_fragment_is_not_forwarded(proxied: Proxied) -> None:
    async with proxied(says()) as (up, server):
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = "POST /reports/x#/../y HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        status = (await reader.read()).split(b" ")[1]
        writer.close()
        assert status == b"400" or [got.path for got in up.got] == ["/reports/x"]


PAGE = b"<script>fetch('/v1/jobs')</script>"


async def test_stored_page_is_sandboxed(proxied: Proxied) -> None:
    own = "Content-Security-Policy: default-src 'self'"
    script = says("200 OK", PAGE, "Content-Type: text/html", own)
    async with proxied(script) as (_, server):
        once = {"Idempotency-Key": "k"}
        first = await server.http.post("/reports/x", headers=once)
        job_id = first.headers["coatcheck-job"]
        await server.engine.wait(job_id, 30)
        path = f"/v1/jobs/{job_id}/result"
        for kept in (
            await server.http.get(path),
            await server.http.head(path),
            await server.http.post("/reports/x", headers=once),
        ):
            assert kept.headers.get_list("content-security-policy") == [
                "default-src 'self'",
                "sandbox",
            ]
        assert kept.content == PAGE


@pytest.mark.parametrize(
    "path", ["/reports/%2e%2e/admin", "/reports/..%2fadmin", "/reports/..;/x", "/reports/%5c..%5cx"]
)
async def test_dot_segments_are_rejected(proxied: Proxied, path: str) -> None:
    async with proxied(says()) as (up, server):
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        assert up.got == []
        assert await server.engine.list_jobs(JobFilter(DEFAULT_TENANT)) == []


async def test_catch_all_rule_does_not_hide_the_api(proxied: Proxied) -> None:
    async with proxied(says(), "GET /*", "POST /*") as (up, server):
        assert (await server.http.get("/healthz")).json()["status"] == "ok"
        assert (await server.http.post("/v1/nothing")).status_code == 404
        assert (await server.http.post("/healthz")).status_code in (404, 405)
        assert (await server.http.get("/openapi.json")).json()["openapi"] == "3.1.0"
        assert up.got == []
        assert (await server.http.get("/anything/else")).content == b"hello"


async def test_other_method_is_rejected(proxied: Proxied) -> None:
    async with proxied(says()) as (_, server):
        answer = await server.http.put("/reports/x")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert (await server.http.post("/other")).status_code == 404


async def test_openapi_describes_the_rules(proxied: Proxied) -> None:
    async with proxied(says()) as (_, server):
        described = (await server.http.get("/openapi.json")).json()["paths"]["/reports/{rest}"]
        assert described["post"]["summary"] == "Forward POST /reports/*"
        assert next(each["name"] for each in described["post"]["parameters"]) == "rest"


async def test_stopping_worker_releases_a_get(proxied: Proxied) -> None:
    asked = asyncio.Event()

    async def first(_got: Got, _writer: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    script = in_turn(first, says())
    async with proxied(script, "GET /x", works=False, wait=0) as (up, server):
        answer = await server.http.get("/x")
        job_id = answer.json()["id"]
        async with server.work():
            await asyncio.wait_for(asked.wait(), 30)
        job = await server.engine.get(job_id)
        assert (job.state, job.reason, job.attempt) == (State.QUEUED, Reason.RELEASED, 0)
        async with server.work():
            later = await server.http.get(f"/v1/jobs/{job_id}/result?wait=30")
        assert (later.content, len(up.got)) == (b"hello", 2)


@pytest.mark.parametrize("size", [100, 300_000, 8_000_000])
async def test_early_response_of_the_upstream_is_relayed(size: int, serve: Any) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much"
        )
        await writer.drain()
        writer.write_eof()
        await reader.read(1000)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    rules = read_rules([{"match": "POST /reports/*", "target": target}])
    async with serve(ProxySurface(rules)) as running:
        answer = await running.http.post("/reports/x", content=b"x" * size)
        assert (answer.status_code, answer.content) == (413, b"too much")
    server.close()


async def test_garbage_in_a_stream_breaks_the_call(proxied: Proxied) -> None:
    go_on = asyncio.Event()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await writer.drain()
        await go_on.wait()
        writer.write(b"this is no length\r\nand this no chunk\r\n")
        await asyncio.Event().wait()  # and it does not close

    async with proxied(script, "GET /x") as (up, server):
        async with server.http.stream("GET", "/x") as answer:
            job_id = answer.headers["coatcheck-job"]
            chunks = answer.aiter_bytes()
            assert await anext(chunks) == b"first"
            go_on.set()
            with pytest.raises(httpx2.RemoteProtocolError):
                await anext(chunks)
        job = await server.engine.wait(job_id, 30)
        assert (job.error and job.error.code, len(up.got)) == ("broken-off", 1)


async def test_reset_connection_breaks_the_stream(proxied: Proxied) -> None:
    go_on = asyncio.Event()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nfirst")  # until it closes
        await writer.drain()
        await go_on.wait()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with proxied(script, "GET /x") as (_, server):
        async with server.http.stream("GET", "/x") as answer:
            job_id = answer.headers["coatcheck-job"]
            chunks = answer.aiter_bytes()
            assert await anext(chunks) == b"first"
            go_on.set()
            with pytest.raises(httpx2.RemoteProtocolError):
                await anext(chunks)
        job = await server.engine.wait(job_id, 30)
        assert (job.error and job.error.code) == "broken-off"
