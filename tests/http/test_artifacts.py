"""Files over HTTP: as they are or in part, and never as something a browser would run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.app import create_http_app
from coatcheck.model.job import Lease
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import StoppedClock, connect
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 20_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock, folder: Path) -> Engine:
    kinds = declare_kinds(gate).kinds
    return Engine(store, kinds, clock, blobs=Blobs(FileBucket(folder)))


@pytest.fixture
async def lease(engine: Engine, claimer: str) -> Lease:
    """A running job that the test writes to."""
    await engine.insert(Submission("echo", '"you"'))
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    return claim.lease


@pytest.fixture
async def address(engine: Engine, lease: Lease) -> str:
    """Where a file of that job is."""
    await engine.payload_store.save_artifact(lease, "data.bin", CONTENT, None)
    return f"/v1/jobs/{lease.job_id}/artifacts/data.bin"


@pytest.fixture
async def http(engine: Engine) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(create_http_app(engine)) as client:
        yield client


async def test_a_file_is_given_out_as_it_was_kept(http: httpx2.AsyncClient, address: str) -> None:
    answer = await http.get(address, headers={"Accept": "image/png"})

    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["etag"] == f'"{hashlib.sha256(CONTENT).hexdigest()}"'
    assert answer.headers["accept-ranges"] == "bytes"


async def test_a_job_and_its_listing_name_its_files(
    http: httpx2.AsyncClient, engine: Engine, address: str, lease: Lease
) -> None:
    await engine.payload_store.save_artifact(lease, "a.csv", b"1,2", "text/csv")
    listed = (await http.get(f"/v1/jobs/{lease.job_id}/artifacts")).json()["artifacts"]
    assert listed[0] == {
        "name": "a.csv",
        "content_type": "text/csv",
        "size": 3,
        "sha256": hashlib.sha256(b"1,2").hexdigest(),
        "created_at": "2033-05-18T03:33:20.000Z",
        "url": f"/v1/jobs/{lease.job_id}/artifacts/a.csv",
    }
    assert [each["url"] for each in listed] == [listed[0]["url"], address]
    assert (await http.get(f"/v1/jobs/{lease.job_id}")).json()["artifacts"] == listed
    assert (await http.get("/v1/jobs")).json()["jobs"][0]["artifacts"] == listed


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=3000000-", 3_000_000, len(CONTENT)),
        ("bytes=-5", len(CONTENT) - 5, len(CONTENT)),
        (f"bytes=-{10**12}", 0, len(CONTENT)),
        (f"bytes=7-{10**12}", 7, len(CONTENT)),
    ],
)
async def test_a_part_can_be_asked_for(
    http: httpx2.AsyncClient, address: str, asked: str, start: int, stop: int
) -> None:
    answer = await http.get(address, headers={"Range": asked})
    assert (answer.status_code, answer.content) == (206, CONTENT[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(stop - start)


@pytest.mark.parametrize("asked", [f"bytes={len(CONTENT)}-", "bytes=-0", "bytes=9-8"])
async def test_a_part_that_is_not_there_is_refused(
    http: httpx2.AsyncClient, address: str, asked: str
) -> None:
    answer = await http.get(address, headers={"Range": asked})
    assert read_problem(answer, 416, "range-not-satisfiable")
    assert answer.headers["content-range"] == f"bytes */{len(CONTENT)}"


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "lines=1-2", "bytes=a-b", "bytes=", "x"])
async def test_what_is_no_single_range_is_as_good_as_none(
    http: httpx2.AsyncClient, address: str, asked: str
) -> None:
    answer = await http.get(address, headers={"Range": asked})
    assert (answer.status_code, len(answer.content)) == (200, len(CONTENT))


async def test_tags_save_a_download_and_keep_two_files_from_being_mixed(
    http: httpx2.AsyncClient, address: str
) -> None:
    tag = (await http.head(address)).headers["etag"]
    same = await http.get(address, headers={"If-None-Match": f'"other", W/{tag}'})
    part = await http.get(address, headers={"Range": "bytes=1-2", "If-Range": tag})
    other = await http.get(address, headers={"Range": "bytes=1-2", "If-Range": '"other"'})
    assert (same.status_code, same.content, part.status_code) == (304, b"", 206)
    assert (other.status_code, len(other.content)) == (200, len(CONTENT))


async def test_head_tells_all_but_the_bytes(http: httpx2.AsyncClient, address: str) -> None:
    answer = await http.head(address)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(CONTENT))


@pytest.mark.parametrize(
    ("name", "content_type", "shown"),
    [
        ("page.html", "text/html", "attachment"),
        ("image.svg", "image/svg+xml", "attachment"),
        ("script.js", "text/javascript", "attachment"),
        ("doc.pdf", "application/pdf", "attachment"),
        ("image.png", "image/png", "inline"),
        ("image.jpg", "image/jpeg", "inline"),
    ],
)
async def test_a_browser_runs_nothing_of_it(
    http: httpx2.AsyncClient,
    engine: Engine,
    lease: Lease,
    name: str,
    content_type: str,
    shown: str,
) -> None:
    await engine.payload_store.save_artifact(lease, name, b"<script>alert(1)</script>", None)
    answer = await http.get(f"/v1/jobs/{lease.job_id}/artifacts/{name}")
    assert answer.headers["content-type"] == content_type
    assert answer.headers["content-disposition"] == f'{shown}; filename="{name}"'
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["other", "%2e%2e%2fjobs.db", "..%5cx", "%00", "x" * 5000])
async def test_no_other_name_leads_anywhere(
    http: httpx2.AsyncClient, address: str, lease: Lease, name: str
) -> None:
    answer = await http.get(f"/v1/jobs/{lease.job_id}/artifacts/{name}")
    assert answer.status_code == 404


async def test_a_file_whose_bytes_are_gone_says_so(
    http: httpx2.AsyncClient, address: str, folder: Path
) -> None:
    for path in files(folder):
        path.unlink()
    assert read_problem(await http.get(address), 410, "blob-gone")


async def test_a_receipt_counts_the_files(
    http: httpx2.AsyncClient, engine: Engine, address: str, lease: Lease, folder: Path
) -> None:
    await engine.settle([Settlement(lease, Succeeded("3"))])
    receipt = (await http.delete(f"/v1/jobs/{lease.job_id}")).json()
    assert receipt["removed"]["artifacts"] == 1
    assert (await http.get(address)).status_code == 410
    assert files(folder) == []


@pytest.mark.parametrize("size", [100_000, 2_000_000])
async def test_a_large_result_is_shown_with_its_job_or_at_its_own_address(
    http: httpx2.AsyncClient, engine: Engine, lease: Lease, size: int
) -> None:
    result = json.dumps("x" * size)
    await engine.settle([Settlement(lease, Succeeded(result))])
    job = (await http.get(f"/v1/jobs/{lease.job_id}")).json()
    alone = await http.get(f"/v1/jobs/{lease.job_id}/result")
    assert job["result"] == ("x" * size if size < 1_000_000 else None)
    assert job.get("result_omitted") is (None if size < 1_000_000 else True)
    assert (alone.status_code, alone.text) == (200, result)
    assert alone.headers["content-length"] == str(len(result))
    assert (await http.head(f"/v1/jobs/{lease.job_id}/result")).status_code == 200
