"""A fake cluster behind a real HTTP server: batch/v1 Jobs, pods, pods/log, events, watches.

It is faithful in everything the runner sees: versions, Status objects, 409, 404, 410 in a watch,
followed logs. It can be killed and restarted with its state, and told to misbehave.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.surfaces.tasks.kubernetes.controller import Controller
from tests.surfaces.tasks.kubernetes.objects import Document, Gone, Objects, now

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class _Cut(Exception):
    """Cuts the connection."""


class FakeCluster:
    """The API of one namespace, and the controllers behind it."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.objects = Objects()
        self.controller = Controller(self.objects)
        self.requests: list[tuple[str, str]] = []  # method, path
        self.rejection: Document | None = None  # the Status for every Job that is created
        self.watches_expired = False
        self.lost_responses = 0  # this many Jobs are created, but their responses are lost
        # Called before each request; if it returns a response, that is sent.
        self.fault: Callable[[str, str], Response | None] = lambda _method, _path: None
        self.delay_s = 0.0
        self._cut = asyncio.Event()
        self._socket = _bound(0)
        self.port = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._deleting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen, always on the same port."""
        if self._socket.fileno() < 0:
            self._socket = _bound(self.port)
        config = uvicorn.Config(
            self._app(), log_level="critical", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._serving = asyncio.create_task(self._server._serve([self._socket]))
        while not self._server.started:  # noqa: ASYNC110 — it has no event for it
            await asyncio.sleep(0.005)

    async def kill(self) -> None:
        """Cut every connection and stop listening; the state and the pods stay."""
        self.cut_streams()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            await self._serving
        self._socket.close()

    async def close(self) -> None:
        await self.kill()
        await asyncio.gather(*self._deleting, return_exceptions=True)
        await self.controller.close()

    def cut_streams(self) -> None:
        """Cut all open watches and logs."""
        self._cut.set()
        self._cut = asyncio.Event()
        self.objects.wake()

    def count(self, method: str, ending: str) -> int:
        return sum(one == method and path.endswith(ending) for one, path in self.requests)

    def _app(self) -> Starlette:
        jobs = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        core = f"/api/v1/namespaces/{self.namespace}"
        return Starlette(
            routes=[
                Route(jobs, self._guarded(self._create_job), methods=["POST"]),
                Route(jobs, self._guarded(self._list("jobs"))),
                Route(jobs + "/{name}", self._guarded(self._get("jobs")), methods=["GET"]),
                Route(jobs + "/{name}", self._guarded(self._delete_job), methods=["DELETE"]),
                Route(core + "/pods", self._guarded(self._list("pods"))),
                Route(core + "/events", self._guarded(self._list("events"))),
                Route(core + "/pods/{name}/log", self._guarded(self._log)),
            ],
            exception_handlers={404: lambda *_: status(404, "NotFound", "namespaces not found")},
        )

    def _guarded(self, answer: Any) -> Any:
        async def guarded(request: Request) -> Response:
            self.requests.append((request.method, request.url.path))
            request.state.cut = self._cut  # as of the start of the request
            await asyncio.sleep(self.delay_s)
            if (fault := self.fault(request.method, request.url.path)) is not None:
                return fault
            found: Response = await answer(request)
            return found

        return guarded

    async def _create_job(self, request: Request) -> Response:
        job = await request.json()
        if self.rejection is not None:
            return JSONResponse(self.rejection, self.rejection["code"])
        if (problem := _invalid(job)) is not None:
            return status(422, "Invalid", f"Job.batch is invalid: {problem}")
        name = job["metadata"]["name"]
        if self.objects.get("jobs", name) is not None:
            return status(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
        job["status"] = {}
        self.controller.add(self.objects.create("jobs", job))
        if self.lost_responses:
            self.lost_responses -= 1
            return status(504, "Timeout", "the request timed out")
        return JSONResponse(job, 201)

    async def _delete_job(self, request: Request) -> Response:
        name = request.path_params["name"]
        if (job := self.objects.get("jobs", name)) is None:
            return status(404, "NotFound", f'jobs.batch "{name}" not found')
        assert request.query_params["propagationPolicy"] == "Foreground"
        if "deletionTimestamp" not in job["metadata"]:
            job["metadata"]["deletionTimestamp"] = now()
            self.objects.changed("jobs", job)
            task = asyncio.create_task(self.controller.delete(job))
            self._deleting.add(task)
        return JSONResponse(job)

    def _get(self, kind: str) -> Any:
        async def get(request: Request) -> Response:
            name = request.path_params["name"]
            found = self.objects.get(kind, name)
            if found is None:
                return status(404, "NotFound", f'{kind} "{name}" not found')
            return JSONResponse(found)

        return get

    def _list(self, kind: str) -> Any:
        async def list_objects(request: Request) -> Response:
            labels = _pairs(request.query_params.get("labelSelector", ""))
            if request.query_params.get("watch") == "true":
                version = int(request.query_params["resourceVersion"])
                seconds = float(request.query_params["timeoutSeconds"])
                return StreamingResponse(
                    self._watch(kind, labels, version, seconds, request.state.cut),
                    media_type="application/json",
                )
            items = self.objects.list(kind, labels)
            fields = _pairs(request.query_params.get("fieldSelector", ""))
            items = [one for one in items if all(_field(one, k) == v for k, v in fields.items())]
            metadata = {"resourceVersion": str(self.objects.version)}
            return JSONResponse({"kind": "List", "metadata": metadata, "items": items})

        return list_objects

    async def _watch(
        self, kind: str, labels: dict[str, str], version: int, seconds: float, cut: asyncio.Event
    ) -> AsyncIterator[bytes]:
        if self.watches_expired:
            version = 0
        events = self.objects.watch(kind, labels, version)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        try:
            while (left := until - loop.time()) > 0:
                event = await _first(anext(events), cut, left)
                if event is None:
                    return
                yield json.dumps({"type": event[0], "object": event[1]}).encode() + b"\n"
        except Gone:
            expired = _status(410, "Expired", f"too old resource version: {version}")
            yield json.dumps({"type": "ERROR", "object": expired}).encode() + b"\n"

    async def _log(self, request: Request) -> Response:
        name = request.path_params["name"]
        if self.objects.get("pods", name) is None:
            return status(404, "NotFound", f'pods "{name}" not found')
        container = self.controller.containers.get(name)
        if container is None:
            waiting = f'container in pod "{name}" is waiting to start: ContainerCreating'
            return status(400, "BadRequest", waiting)
        limit = int(request.query_params.get("limitBytes", 2**40))

        async def follow() -> AsyncIterator[bytes]:
            at = 0
            while at < limit:
                changed = self.objects._changed
                if data := bytes(container.log[at : min(limit, at + 7000)]):
                    at += len(data)
                    yield data
                elif container.ended:
                    return
                else:
                    await _first(changed.wait(), request.state.cut, 600)

        return StreamingResponse(follow(), media_type="text/plain")


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


async def _first(work: Any, cut: asyncio.Event, seconds: float) -> Any:
    """Await something; return None if the connection is cut or the time is over."""
    wanted, cutting = asyncio.ensure_future(work), asyncio.ensure_future(cut.wait())
    try:
        await asyncio.wait([wanted, cutting], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if cutting.done():
            raise _Cut
        return wanted.result() if wanted.done() else None
    finally:
        wanted.cancel()
        cutting.cancel()


def _status(code: int, reason: str, message: str) -> Document:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def status(code: int, reason: str, message: str) -> Response:
    """Return a Status response, as the API does for every error."""
    return JSONResponse(_status(code, reason, message), code)


def quota_status(name: str = "x") -> Document:
    message = (
        f'jobs.batch "{name}" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1'
    )
    return _status(403, "Forbidden", message)


def _pairs(selector: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in selector.split(",") if part)


def _field(document: Document, path: str) -> object:
    found: Any = document
    for name in path.split("."):
        found = found.get(name, {})
    return found


def _invalid(job: Document) -> str | None:
    name = job["metadata"]["name"]
    if (job["apiVersion"], job["kind"]) != ("batch/v1", "Job"):
        return "apiVersion or kind"
    if len(name) > 63 or not _NAME.fullmatch(name):
        return "metadata.name"
    if job["spec"]["template"]["spec"]["restartPolicy"] not in {"Never", "OnFailure"}:
        return "spec.template.spec.restartPolicy"
    if any(len(value) > 63 for value in job["metadata"]["labels"].values()):
        return "metadata.labels"
    if not isinstance(job["spec"]["activeDeadlineSeconds"], int):
        return "spec.activeDeadlineSeconds"
    return None
