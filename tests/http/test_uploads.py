"""Files that are handed in before their job: streamed, counted, taken over once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from pydantic import BaseModel

from coatcheck import App, Context, Upload
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.model.upload import UNUSED_UPLOAD_TTL_MS
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.http.arrange import StoppedClock, connect
from tests.http.problems import read_problem
from tests.http.test_body_limit import Body

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 10_000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Compare(BaseModel):
    first: Upload
    second: Upload


def declare() -> App:
    app = App()

    @app.job
    async def measure(ctx: Context, file: Upload) -> dict[str, object]:
        path: Path = await ctx.file(file)
        content = await asyncio.to_thread(path.read_bytes)
        return {"name": path.name, "size": len(content), "sha256": _sha(content), "at": str(path)}

    @app.job
    def compare(ctx: Context, files: Compare) -> bool:
        first, second = ctx.file(files.first), ctx.file(files.second)
        return bool(first.read_bytes() == second.read_bytes())

    @app.job
    def steal(ctx: Context, id: str) -> str:  # noqa: A002 - of an upload
        return str(ctx.file(Upload(upload=id)))

    return app


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def engine(store: SQLiteStore, clock: StoppedClock, folder: Path) -> Engine:
    return Engine(store, declare().kinds, clock, blobs=Blobs(FileBucket(folder)))


@pytest.fixture
async def http(engine: Engine) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(create_http_app(engine)) as client:
        yield client


@pytest.fixture
async def working(engine: Engine, tmp_path: Path) -> AsyncIterator[Path]:
    """A worker, and the folder where it puts files for handlers."""
    scratch = tmp_path / "scratch"
    worker = Worker(engine, Settings(concurrency=4, drain_s=0), scratch=scratch)
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    yield scratch
    stop.set()
    await running


async def send(http: httpx2.AsyncClient, **headers: str) -> httpx2.Response:
    answer = await http.post("/v1/uploads?name=a.zip", content=CONTENT, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    return answer


async def test_a_file_is_taken_in_as_it_is(http: httpx2.AsyncClient, folder: Path) -> None:
    answer = await send(http, **{"Content-Type": "application/zip"})

    upload = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/uploads/{upload['id']}"
    assert (upload["name"], upload["content_type"]) == ("a.zip", "application/zip")
    assert (upload["size"], upload["sha256"]) == (len(CONTENT), SHA)
    assert (await http.get(answer.headers["location"])).json() == upload
    [kept] = files(folder)
    assert kept.read_bytes() == CONTENT


async def test_a_form_with_a_file_is_taken_in(http: httpx2.AsyncClient, folder: Path) -> None:
    answer = await http.post(
        "/v1/uploads", files={"file": ("C:\\dir\\naïve.bin", CONTENT, "application/x-thing")}
    )

    assert answer.status_code == 201, answer.text
    upload = answer.json()
    assert (upload["name"], upload["content_type"]) == ("naïve.bin", "application/x-thing")
    assert (upload["size"], upload["sha256"]) == (len(CONTENT), SHA)
    assert files(folder)[0].read_bytes() == CONTENT


BOUNDARY = {"Content-Type": "multipart/form-data; boundary=here"}
FILE = b'--here\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nabc\r\n'
FIELD = b'--here\r\nContent-Disposition: form-data; name="f"\r\n\r\nabc\r\n'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--here--\r\n",
        b"what is this",
        FILE,
        FILE + b"--here",
        FILE + FILE + b"--here--\r\n",
        FIELD + FILE + b"--here--\r\n",
        FILE + FIELD + b"--here--\r\n",
        b"--here\r\nX: " + b"x" * 10_000 + b"\r\n\r\nabc\r\n--here--\r\n",
    ],
)
async def test_a_form_that_is_not_one_file_is_refused(
    http: httpx2.AsyncClient, folder: Path, body: bytes
) -> None:
    answer = await http.post("/v1/uploads", content=body, headers=BOUNDARY)

    read_problem(answer, 400, "bad-request")
    assert files(folder) == []


async def test_a_form_without_a_boundary_is_refused(http: httpx2.AsyncClient) -> None:
    headers = {"Content-Type": "multipart/form-data"}
    read_problem(await http.post("/v1/uploads", content=FILE, headers=headers), 400, "bad-request")


async def test_a_file_declared_too_large_is_refused_before_any_of_it_is_read(
    http: httpx2.AsyncClient, engine: Engine, folder: Path
) -> None:
    body = Body(engine.uploads.limit + 1)
    headers = {"Content-Length": str(engine.uploads.limit + 1)}

    answer = await http.post("/v1/uploads", content=body, headers=headers)

    read_problem(answer, 413, "too-large")
    assert body.pulled == 0
    assert answer.headers["connection"] == "close"
    assert files(folder) == []


async def test_a_file_that_declares_nothing_is_read_up_to_the_limit_only(
    http: httpx2.AsyncClient, engine: Engine, folder: Path
) -> None:
    engine.uploads.limit = 3_000_000
    body = Body(100_000_000)

    answer = await http.post("/v1/uploads", content=body)

    read_problem(answer, 413, "too-large")
    assert body.pulled < 6_000_000
    assert files(folder) == []


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(
    http: httpx2.AsyncClient, engine: Engine, folder: Path
) -> None:
    class LeftError(Exception):
        pass

    async def cut() -> AsyncIterator[bytes]:
        yield CONTENT
        raise LeftError

    with pytest.raises(LeftError):
        await engine.uploads.receive(cut())
    assert files(folder) == []


async def test_an_upload_that_is_cancelled_leaves_nothing(engine: Engine, folder: Path) -> None:
    waits = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield CONTENT
        waits.set()
        await asyncio.Event().wait()

    receiving = asyncio.create_task(engine.uploads.receive(slow()))
    await waits.wait()
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    assert files(folder) == []


async def test_a_handler_is_given_the_file(
    http: httpx2.AsyncClient, engine: Engine, working: Path
) -> None:
    upload = (await send(http)).json()
    job = await http.post("/v1/jobs", json={"kind": "measure", "input": {"upload": upload["id"]}})
    ended = (await http.get(f"/v1/jobs/{job.json()['id']}?wait=30")).json()

    assert ended["state"] == "succeeded", ended
    at = ended["result"].pop("at")
    assert ended["result"] == {"name": "a.zip", "size": len(CONTENT), "sha256": SHA}
    assert at.startswith(str(working))
    assert (await http.get(f"/v1/uploads/{upload['id']}")).status_code == 404, "it is the job's"


async def test_a_job_may_take_several(http: httpx2.AsyncClient, working: Path) -> None:
    first, second = (await send(http)).json()["id"], (await send(http)).json()["id"]
    named = {"first": {"upload": first}, "second": {"upload": second}}
    job = await http.post("/v1/jobs", json={"kind": "compare", "input": named})
    ended = (await http.get(f"/v1/jobs/{job.json()['id']}?wait=30")).json()
    assert ended["result"] is True, ended


async def test_a_job_cannot_read_what_it_was_not_given(
    http: httpx2.AsyncClient, working: Path
) -> None:
    upload = (await send(http)).json()["id"]
    submitted = {"kind": "steal", "input": upload, "max_attempts": 1}
    job = await http.post("/v1/jobs", json=submitted)
    ended = (await http.get(f"/v1/jobs/{job.json()['id']}?wait=30")).json()
    assert ended["state"] == "failed"
    assert "has no upload" in ended["error"]["message"]


async def test_an_upload_is_for_one_job(http: httpx2.AsyncClient) -> None:
    named = {"kind": "measure", "input": {"upload": (await send(http)).json()["id"]}}
    assert (await http.post("/v1/jobs", json=named)).status_code == 202
    read_problem(await http.post("/v1/jobs", json=named), 422, "invalid-payload")


async def test_an_unknown_upload_is_refused(http: httpx2.AsyncClient) -> None:
    for upload in ("01M7GDTNAQ55VVM48585MMPRGK", "no id"):
        named = {"kind": "measure", "input": {"upload": upload}}
        read_problem(await http.post("/v1/jobs", json=named), 422, "invalid-payload")


async def test_a_deleted_job_takes_its_file_along(http: httpx2.AsyncClient, folder: Path) -> None:
    named = {"kind": "measure", "input": {"upload": (await send(http)).json()["id"]}}
    job = (await http.post("/v1/jobs", json=named)).json()["id"]
    await http.post(f"/v1/jobs/{job}/cancel")
    receipt = (await http.delete(f"/v1/jobs/{job}")).json()
    assert (receipt["removed"]["uploads"], receipt["removed"]["blobs"]) == (1, 1)
    assert files(folder) == []


async def test_the_same_upload_under_one_key_is_one(http: httpx2.AsyncClient, folder: Path) -> None:
    key = {"Idempotency-Key": "once"}
    several = [await send(http, **key) for _ in range(4)]

    assert len({answer.json()["id"] for answer in several}) == 1
    assert [answer.status_code for answer in several] == [201, 200, 200, 200]
    assert sum(answer.headers.get("idempotency-replayed") == "true" for answer in several) == 3
    assert len(files(folder)) == 1


async def test_another_file_under_that_key_is_refused(
    http: httpx2.AsyncClient, folder: Path
) -> None:
    key = {"Idempotency-Key": "once"}
    await send(http, **key)
    answer = await http.post("/v1/uploads?name=a.zip", content=b"other", headers=key)
    read_problem(answer, 422, "idempotency-key-reused")
    assert len(files(folder)) == 1


async def test_an_upload_that_no_job_takes_is_removed(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock, folder: Path
) -> None:
    upload = (await send(http)).json()["id"]
    clock.milliseconds += UNUSED_UPLOAD_TTL_MS
    read_problem(await http.get(f"/v1/uploads/{upload}"), 404, "not-found")
    await engine.payload_store.sweep()
    assert files(folder) == []


async def test_an_upload_can_be_given_up(http: httpx2.AsyncClient, folder: Path) -> None:
    upload = (await send(http)).json()["id"]
    assert (await http.delete(f"/v1/uploads/{upload}")).status_code == 204
    assert files(folder) == []
    read_problem(await http.delete(f"/v1/uploads/{upload}"), 404, "not-found")


async def test_a_fork_has_the_file_too(
    http: httpx2.AsyncClient, working: Path, folder: Path
) -> None:
    named = {"kind": "measure", "input": {"upload": (await send(http)).json()["id"]}}
    job = (await http.post("/v1/jobs", json=named)).json()["id"]
    await http.get(f"/v1/jobs/{job}?wait=30")
    fork = (await http.post(f"/v1/jobs/{job}/fork", json={"from_step": 0})).json()["id"]
    ended = (await http.get(f"/v1/jobs/{fork}?wait=30")).json()
    assert ended["result"]["sha256"] == SHA, ended
    await http.delete(f"/v1/jobs/{job}")
    assert len(files(folder)) == 1


async def test_a_folder_signs_no_addresses(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/signed-uploads", json={"size": 3})
    read_problem(answer, 409, "no-signed-uploads")
