"""Requests to the tasks surface that several test files make."""

from __future__ import annotations

from typing import Any

import httpx2


async def put_task(http: httpx2.AsyncClient, command: Any, task_id: str = "task-1") -> str:
    """Store a task and return the path of its executions."""
    task = {"id": task_id, "name": f"A task: {task_id}", "command": command}
    answer = await http.put("/api/tasks", json=task)
    assert answer.status_code == 200, answer.text
    return f"/api/tasks/{task_id}/executions"


async def wait_finished(http: httpx2.AsyncClient, accepted: httpx2.Response) -> dict[str, Any]:
    """Wait for an accepted execution to finish and return it."""
    assert accepted.status_code == 202, accepted.text
    await http.get(f"/v1/jobs/{accepted.json()['executionId']}?wait=60")
    return dict((await http.get(accepted.headers["Location"])).json())
