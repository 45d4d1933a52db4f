"""Following jobs whose handlers take steps and wait."""

from __future__ import annotations

from typing import Any

import httpx2


async def until_waiting(http: httpx2.AsyncClient, job: dict[str, Any], times: int = 1) -> None:
    """Wait until a job has begun to wait so many times."""
    after = seen = 0
    while seen < times:
        answer = await http.get(
            f"/v1/jobs/{job['id']}/events?after={after}&wait=60",
            headers={"Accept": "application/json"},
        )
        page = answer.json()
        assert page["events"] and not page["ended"], page
        for event in page["events"]:
            after = event["seq"]
            if event["type"] == "state" and event["data"]["state"] == "waiting":
                seen += 1


async def steps_of(http: httpx2.AsyncClient, job: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a job's steps."""
    answer = await http.get(f"/v1/jobs/{job['id']}/steps")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["steps"])


async def end_of(http: httpx2.AsyncClient, job: dict[str, Any]) -> dict[str, Any]:
    """Wait for a job to end and return it."""
    ended = (await http.get(f"/v1/jobs/{job['id']}?wait=60")).json()
    assert ended["finished_at"] is not None, ended
    return dict(ended)
