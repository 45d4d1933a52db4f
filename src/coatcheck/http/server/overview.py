"""Health, server information, workers and throughput."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.server import (
    MinuteCount,
    ServerDocument,
    ThroughputDocument,
    WorkerDocument,
    WorkerPage,
)
from coatcheck.engine.auth import Caller
from coatcheck.engine.engine import Engine
from coatcheck.http.auth.caller import caller_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.errors import problem_response
from coatcheck.http.jobs.views import dumps, optional_time
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import HeldJob

if TYPE_CHECKING:  # a surface imports endpoints, and these are some
    from coatcheck.http.surfaces.base import Surface

# At most this many jobs of a worker are listed.
MAX_LISTED = 20
_RETRY_LATER = {"Retry-After": "5"}


async def healthz(request: Request) -> Response:
    """Report that this process is alive. Surfaces may add members."""
    surfaces: Mapping[str, Surface] = request.app.state.surfaces
    added = await asyncio.gather(*(surface.health() for surface in surfaces.values()))
    return JSONResponse({"status": "ok"} | {name: each[name] for each in added for name in each})


async def readyz(request: Request) -> Response:
    """Return 200 if jobs can be submitted: the store is migrated and accepts a write; else 503."""
    engine: Engine = request.app.state.engine
    await engine.store.ping()
    if engine.stopping:
        return problem_response(503, "stopping", "the server is stopping", headers=_RETRY_LATER)
    return JSONResponse({"status": "ready"})


async def get_server(request: Request) -> Response:
    """Return the server's version and surfaces, and the permissions of the caller's key."""
    engine: Engine = request.app.state.engine
    caller = caller_of(request)
    document: ServerDocument = {
        "version": version("coatcheck"),
        "now": to_rfc3339(engine.clock.now()),
        "needs_key": engine.authenticator.needs_key,
        "surfaces": sorted(request.app.state.surfaces),
        "caller": {
            "tenant": caller.tenant,
            "key_id": caller.key_id,
            "operator": caller.is_operator,
            "scopes": _scopes(caller),
        },
    }
    return Response(dumps(document), media_type=JSON)


async def list_workers(request: Request) -> Response:
    """Return every registered worker with the jobs it runs."""
    engine: Engine = request.app.state.engine
    known = await engine.store.workers.list_workers()
    held = await asyncio.gather(
        *(engine.store.workers.list_held_jobs(each.info.id) for each in known)
    )
    listed = [(one.lease.tenant, one.lease.job_id) for some in held for one in some[:MAX_LISTED]]
    found = {(job.tenant, job.id): job for job in await engine.store.jobs.get_many(listed)}
    workers = [
        _worker_view(each.info, each.known_dead, leases, found)
        for each, leases in zip(known, held, strict=True)
    ]
    page: WorkerPage = {"workers": workers}
    return Response(dumps(page), media_type=JSON)


async def get_throughput(request: Request) -> Response:
    """Return how many jobs finished in each minute of the last hour, by queue and kind."""
    engine: Engine = request.app.state.engine
    finished: list[MinuteCount] = [
        {
            "minute": to_rfc3339(each.minute),
            "queue": each.queue,
            "kind": each.kind,
            "succeeded": each.succeeded,
            "failed": each.failed,
            "cancelled": each.cancelled,
        }
        for each in await engine.metrics.throughput.last_hour()
    ]
    document: ThroughputDocument = {"ended": finished}
    return Response(dumps(document), media_type=JSON)


def _scopes(caller: Caller) -> list[str]:
    if Scope.ADMIN in caller.grants:
        return [str(Scope.ADMIN)]
    return sorted(
        str(scope) if kind is None else f"{scope}:{kind}"
        for scope, kinds in caller.grants.items()
        for kind in (kinds if kinds is not None else (None,))
    )


def _worker_view(
    info: WorkerInfo, known_dead: bool, held: list[HeldJob], found: dict[tuple[str, str], Job]
) -> WorkerDocument:
    jobs = [found.get((one.lease.tenant, one.lease.job_id)) for one in held[:MAX_LISTED]]
    return {
        "id": info.id,
        "host": info.host,
        "pid": info.pid,
        "kinds": [kind for kind in info.kinds if "@" not in kind],
        "slots": info.slots,
        "started_at": to_rfc3339(info.started_at),
        "lost": known_dead,
        "running": len(held),
        "jobs": [
            {
                "id": job.id,
                "tenant": job.tenant,
                "kind": job.kind,
                "started_at": optional_time(job.started_at),
            }
            for job in jobs
            if job is not None
        ],
    }
