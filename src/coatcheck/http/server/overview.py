"""The calls that show the whole: who asks whom, what works, what has ended lately."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.auth import Caller
from coatcheck.engine.engine import Engine
from coatcheck.http.auth.caller import caller_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import HeldJob

# Of a worker that runs more jobs than this, only so many are named.
MOST_NAMED = 20


async def get_server(request: Request) -> Response:
    """Answer with what this server is, and what the key that was sent is good for."""
    engine: Engine = request.app.state.engine
    caller = caller_of(request)
    answer = {
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
    return Response(dumps(answer), media_type=JSON)


async def list_workers(request: Request) -> Response:
    """Answer with every worker that is registered, and the jobs it holds."""
    engine: Engine = request.app.state.engine
    seen = await engine.store.workers.list_workers()
    held = await asyncio.gather(
        *(engine.store.workers.list_held_jobs(each.info.id) for each in seen)
    )
    named = [(one.lease.tenant, one.lease.job_id) for some in held for one in some[:MOST_NAMED]]
    found = {(job.tenant, job.id): job for job in await engine.store.jobs.get_many(named)}
    workers = [
        _worker_view(each.info, each.known_dead, holds, found)
        for each, holds in zip(seen, held, strict=True)
    ]
    return Response(dumps({"workers": workers}), media_type=JSON)


async def get_throughput(request: Request) -> Response:
    """Answer with how many jobs ended in each minute of the last hour, as workers ended them."""
    engine: Engine = request.app.state.engine
    ended = [
        {**each._asdict(), "minute": to_rfc3339(each.minute)}
        for each in await engine.metrics.throughput.last_hour()
    ]
    return Response(dumps({"ended": ended}), media_type=JSON)


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
) -> dict[str, Any]:
    jobs = [found.get((one.lease.tenant, one.lease.job_id)) for one in held[:MOST_NAMED]]
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
                "started_at": None if job.started_at is None else to_rfc3339(job.started_at),
            }
            for job in jobs
            if job is not None
        ],
    }
