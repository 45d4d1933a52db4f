"""A FastAPI app in a real server: quick responses, jobs, and rejected callers."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .gate import Gate
from .server import Server

ANNA = {"Authorization": "Bearer anna"}
BOB = {"Authorization": "Bearer bob"}
LATER = {"Prefer": "respond-async"}
PATIENT = {"Prefer": "wait=30"}
SIZE, MOST_GROWN_KB = 20_000_000, 48_000


def notes(server: Server) -> list[str]:
    return (server.folder / "notes").read_text().splitlines()


def result(server: Server, accepted: httpx2.Response, **headers: str) -> httpx2.Response:
    where = accepted.headers["Location"]
    return server.ask("GET", f"{where}/result?wait=30", headers=ANNA | headers)


def test_quick_response_passes_unchanged(server: Server) -> None:
    answer = server.ask("POST", "/quick", headers=ANNA | PATIENT, json={"pages": 3})
    assert answer.status_code == 201
    assert answer.headers["X-Shelf"] == "7"
    assert answer.headers["Set-Cookie"] == "seen=1"
    assert answer.headers["Preference-Applied"] == "wait=30"
    job = answer.headers["Coatcheck-Job"]
    assert answer.json() == {
        "user": "anna",
        "session": "a session",
        "order": {"pages": 3},
        "url": f"{server.url}/quick",
        "client": "127.0.0.1",
        "same_loop": True,
        "key": job,
    }
    assert "commit" in notes(server)


def test_slow_response_is_fetched_later_by_its_owner_only(
    server: Server, shared_gate: Gate
) -> None:
    accepted = server.ask("POST", "/slow", headers=ANNA, json={"pages": 3})
    assert accepted.status_code == 202
    where, job = accepted.headers["Location"], accepted.json()
    assert (where, int(accepted.headers["Retry-After"]) > 0) == (f"/v1/jobs/{job['id']}", True)
    arrival = shared_gate.arrival()
    seen = server.ask("GET", where, headers=ANNA).json()
    assert (seen["state"], seen["result"]) == ("running", None)
    assert server.ask("GET", f"{where}/result", headers=ANNA).status_code == 202
    for stranger in ({}, BOB, {"Cookie": "session=anna"}):
        for path in (where, f"{where}/result", f"{where}/events"):
            assert server.ask("GET", path, headers=stranger).status_code == 404
        for method, path in (("POST", f"{where}/cancel"), ("DELETE", where)):
            assert server.ask(method, path, headers=stranger).status_code == 404
    arrival.let_go()
    answer = result(server, accepted)
    assert answer.status_code == 201
    assert answer.json() == {"user": "anna", "order": {"pages": 3}, "attempt": 1}
    assert answer.headers["Coatcheck-Job"] == job["id"]
    assert result(server, accepted).content == answer.content
    assert notes(server).count("slow is done") == 1


def test_respond_async_returns_202_at_once(server: Server) -> None:
    accepted = server.ask("POST", "/quick", headers=ANNA | LATER, json={})
    assert accepted.status_code == 202
    assert accepted.headers["Preference-Applied"] == "respond-async"
    assert result(server, accepted).status_code == 201


def test_unauthorized_callers_get_the_apps_401(server: Server) -> None:
    before = notes(server)
    for headers in ({}, {"Authorization": "Bearer mallory"}, {"X-Api-Key": "anna"}):
        for path in ("/slow", "/quick"):
            answer = server.ask("POST", path, headers=headers | LATER, json={"pages": 3})
            assert answer.status_code == 401
            assert answer.headers.get("Coatcheck-Job") is None
    assert notes(server) == before


def test_invalid_input_gets_the_apps_422(server: Server) -> None:
    bad = server.ask("POST", "/slow", headers=ANNA | LATER, json=[1])
    assert (bad.status_code, bad.json()["detail"][0]["loc"]) == (422, ["body"])


def test_chunks_are_streamed(server: Server, shared_gate: Gate) -> None:
    asked = httpx2.stream("POST", f"{server.url}/stream", headers=ANNA | PATIENT, timeout=60.0)
    with asked as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"first\n"
        shared_gate.arrival().let_go()
        assert b"".join(pieces) == b"last\n"


def test_other_routes_go_to_the_app(server: Server) -> None:
    answer = server.ask("POST", "/plain", headers=ANNA)
    assert (answer.json(), answer.headers.get("Coatcheck-Job")) == ("not a job", None)
    assert server.ask("GET", "/slow", headers=ANNA).status_code == 405
    assert server.ask("GET", "/v1/jobs").json() == {"detail": "Not Found"}
    assert server.ask("GET", "/v1/jobs/7").json() == {"detail": "Not Found"}
    unknown = server.ask("GET", "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", headers=ANNA)
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:coatcheck:not-found")


def test_running_call_is_cancelled(server: Server, shared_gate: Gate) -> None:
    accepted = server.ask("POST", "/slow", headers=ANNA | LATER, json={})
    arrival = shared_gate.arrival()
    where = accepted.headers["Location"]
    assert server.ask("POST", f"{where}/cancel", headers=ANNA).status_code in (200, 202)
    arrival.wait_until_gone()
    assert server.ask("GET", f"{where}?wait=30", headers=ANNA).json()["state"] == "cancelled"
    assert result(server, accepted).status_code == 409
    assert "slow was cancelled" in notes(server)


def test_idempotency_key_is_per_caller(server: Server, shared_gate: Gate) -> None:
    key = {"Idempotency-Key": "order-7"}
    first = server.ask("POST", "/slow", headers=ANNA | LATER | key, json={})
    again = server.ask("POST", "/slow", headers=ANNA | LATER | key, json={})
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.json()["id"] == first.json()["id"]
    other = server.ask("POST", "/slow", headers=ANNA | LATER | key, json={"pages": 1})
    assert (other.status_code, other.json()["type"]) == (
        422,
        "urn:coatcheck:idempotency-key-reused",
    )
    of_bob = server.ask("POST", "/slow", headers=BOB | LATER | key, json={})
    assert of_bob.json()["id"] != first.json()["id"]
    for _ in range(2):
        shared_gate.arrival().let_go()
    assert result(server, first).json()["user"] == "anna"


def test_app_error_is_a_500(server: Server) -> None:
    answer = server.ask("POST", "/raises", headers=ANNA | PATIENT)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")


def test_background_tasks_run(server: Server) -> None:
    answer = server.ask("POST", "/behind", headers=ANNA | PATIENT)
    assert answer.json() == "answered"
    where = f"/v1/jobs/{answer.headers['Coatcheck-Job']}"
    assert server.ask("GET", f"{where}?wait=30", headers=ANNA).json()["state"] == "succeeded"
    assert "background" in notes(server)


def _multipart(boundary: str) -> Iterator[bytes]:
    yield (
        f"--{boundary}\r\nContent-Disposition: form-data; name=file; filename=big.bin\r\n"
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    for number in range(SIZE // 1_000_000):
        yield bytes([number]) * 1_000_000
    yield f"\r\n--{boundary}--\r\n".encode()


def memory_kb(server: Server, what: str) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_large_upload_uses_flat_memory(server: Server) -> None:
    headers = ANNA | PATIENT | {"Content-Type": "multipart/form-data; boundary=cut"}
    small = (
        b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--cut--'
    )
    assert server.ask("POST", "/upload", headers=headers, content=small).status_code == 200
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # the peak counts from here
    before = memory_kb(server, "VmRSS")
    digest = hashlib.sha256()
    for number in range(SIZE // 1_000_000):
        digest.update(bytes([number]) * 1_000_000)
    answer = server.ask("POST", "/upload", headers=headers, content=_multipart("cut"))
    expected: dict[str, Any] = {"name": "big.bin", "size": SIZE, "sha256": digest.hexdigest()}
    assert (answer.status_code, answer.json()) == (200, expected)
    assert memory_kb(server, "VmHWM") - before < MOST_GROWN_KB


@pytest.mark.parametrize("path", ["/slow", "/upload"])
def test_nothing_is_stored_for_rejected_callers(server: Server, path: str) -> None:
    def kept() -> set[Path]:
        return {each for each in server.folder.rglob("blobs/**/*") if each.is_file()}

    before = kept()
    headers = {"Content-Type": "multipart/form-data; boundary=cut"}
    answer = server.ask("POST", path, headers=headers, content=_multipart("cut"))
    assert answer.status_code == 401
    while kept() - before:  # it is removed when they have their answer
        time.sleep(0.01)
