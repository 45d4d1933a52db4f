"""The API is killed between commit and response; the client repeats the request under its key."""

from __future__ import annotations

import asyncio
import socket

import httpx2

from coatcheck.testing.checker import Submit

from .launcher import Launcher
from .place import Place
from .stage import Stage, Tally

POINTS = ("api.committed", "api.before_commit")


async def kill_apis(place: Place, launcher: Launcher, *, kills: int, seed: int) -> Tally:
    """Kill one API process after the other, each with a request that it has not answered."""
    async with Stage("SIGKILL of the API", place, launcher, seed).open() as stage:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            worker = await stage.started()
            async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
                for number in range(kills):
                    # Most deaths are after the commit: there the answer alone is lost.
                    point = POINTS[number % 4 == 3]
                    # It passes once for the request that its predecessor died with.
                    passes = 1 if number == 0 else 2
                    api = await stage.started(point, part="api", passes=passes, listening=listening)
                    if number:
                        await _submit(stage, http, number - 1)
                    asking = asyncio.create_task(_submit(stage, http, number))
                    assert await api.says() == point
                    await stage.kill(api)
                    assert not await asking
                api = await stage.started(part="api", listening=listening)
                assert await _submit(stage, http, kills - 1)
                for number in range(kills):
                    assert await _submit(stage, http, number)
        await stage.all_ended()
        await stage.terminate(worker, api)
        return await stage.check(key_label="key")


async def _submit(stage: Stage, http: httpx2.AsyncClient, number: int) -> bool:
    """Ask once under the key of this number; whether there was an answer."""
    key = f"k{number}"
    body = {"kind": "quick", "input": number, "labels": {"key": key}}
    try:
        answer = await http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})
    except httpx2.TransportError:
        stage.submits.append(Submit("", answered=False, key=key))
        return False
    assert answer.status_code in (200, 202), answer.text
    stage.submits.append(Submit(answer.json()["id"], key=key))
    return True
