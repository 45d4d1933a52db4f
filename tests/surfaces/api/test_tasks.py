"""Commands over HTTP, exactly as specified."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.tasks.surface import TaskSurface

from .conftest import Serve
from .task_requests import put_task, wait_finished

pytestmark = pytest.mark.anyio

EXECUTION = {"taskId", "executionId", "status", "jobName", "startedAt"}
RAN = {"exitCode", "stdout", "stderr", "durationMs"}


async def test_sync_execution_returns_the_outcome(serve: Serve) -> None:  # T01, T02, T11
    async with serve(TaskSurface({})) as (http, _):
        path = await put_task(http, "echo 'Hello, you'")
        answer = await http.put(path)
        assert answer.status_code == 200
        said = answer.json()
        assert set(said) == {"taskId", "executionId", *RAN, "timestamp"}
        assert (said["taskId"], said["exitCode"], said["stdout"], said["stderr"]) == (
            "task-1",
            0,
            "Hello, you\n",
            "",
        )


async def test_async_execution_is_polled(serve: Serve) -> None:  # T03, T04, T08, T12
    async with serve(TaskSurface({"EXEC_ASYNC": "true"}), works=False) as (http, _):
        path = await put_task(http, ["echo", "hello"])
        accepted = await http.put(path)
        said = accepted.json()
        assert accepted.status_code == 202
        assert set(said) == {*EXECUTION, "links"}
        assert said["status"] == "PENDING"
        self_ = f"/api/tasks/task-1/executions/{said['executionId']}"
        assert accepted.headers["Location"] == self_
        assert said["links"] == {"self": self_, "task": "/api/tasks/task-1"}
        assert re.fullmatch(r"[a-z0-9-]{1,63}", said["jobName"])
        shown = (await http.get(self_)).json()
        assert set(shown) == {*EXECUTION, "elapsedMs"}
        assert {name: shown[name] for name in EXECUTION} == {name: said[name] for name in EXECUTION}

    async with serve(TaskSurface({})) as (http, _):  # after a restart
        shown = await wait_finished(http, accepted)
        assert (shown["status"], shown["exitCode"], shown["stdout"]) == ("SUCCEEDED", 0, "hello\n")
        assert set(shown) == {*EXECUTION, *RAN, "completedAt"}  # T05
        began, finished = (
            datetime.fromisoformat(shown[name]) for name in ("startedAt", "completedAt")
        )
        assert (finished - began).total_seconds() * 1000 == shown["durationMs"]  # T10


@pytest.mark.parametrize(
    ("command", "status", "exit_code", "stdout", "stderr"),
    [
        (["true"], "SUCCEEDED", 0, "", ""),
        (["ls", "/no/such/folder"], "FAILED", 2, "", "No such file"),
        (["no-such-program"], "FAILED", 127, "", "no-such-program"),
        (["sleep", "60"], "TIMEOUT", 124, "", ""),
    ],
)
async def test_every_final_status(  # T06
    serve: Serve, command: list[str], status: str, exit_code: int, stdout: str, stderr: str
) -> None:
    async with serve(TaskSurface({"EXEC_MAX_POLL_DURATION_SECONDS": "1"})) as (http, _):
        path = await put_task(http, command)
        shown = await wait_finished(http, await http.put(f"{path}?async=true"))  # T13, T09
        assert (shown["status"], shown["exitCode"]) == (status, exit_code)
        assert shown["stdout"] == stdout
        assert stderr in shown["stderr"]


async def test_request_overrides_the_async_setting(serve: Serve) -> None:  # T13
    async with serve(TaskSurface({"EXEC_ASYNC": "true"})) as (http, _):
        path = await put_task(http, "true")
        assert (await http.put(f"{path}?async=false")).status_code == 200
        assert (await http.put(path)).status_code == 202
        assert (await http.put(f"{path}?async=maybe")).status_code == 400


async def test_truncated_output_is_marked(serve: Serve) -> None:  # T14
    async with serve(TaskSurface({})) as (http, _):
        path = await put_task(http, ["seq", "1", "100000"])
        said = (await http.put(path)).json()
        assert said["exitCode"] == 0
        kept = said["stdout"]
        assert 127 * 1024 < len(kept) <= 128 * 1024
        assert (kept[:6], "cut off" in kept[-80:]) == ("1\n2\n3\n", True)


async def test_stdout_is_emitted_while_it_arrives(serve: Serve) -> None:
    async with serve(TaskSurface({})) as (http, _):
        path = await put_task(http, ["echo", "live"])
        said = (await http.put(path)).json()
        path = f"/v1/jobs/{said['executionId']}/events?after=0"
        log = (await http.get(path, headers={"Accept": "application/json"})).json()
        told = [event["data"] for event in log["events"] if event["type"] == "output"]
        assert "".join(piece["stdout"] for piece in told) == "live\n"


async def test_unknown_execution_is_404_without_a_body(serve: Serve) -> None:  # T07
    async with serve(TaskSurface({}), works=False) as (http, _):
        path = await put_task(http, "true")
        other = await put_task(http, "true", "task-2")
        made = (await http.put(f"{path}?async=true")).json()
        for gone in (f"{path}/none", f"{other}/{made['executionId']}"):
            answer = await http.get(gone)
            assert (answer.status_code, answer.content) == (404, b"")
        unknown = await http.put("/api/tasks/none/executions")
        assert (unknown.status_code, unknown.json()["status"]) == (404, 404)


async def test_tasks_are_stored_found_and_deleted(serve: Serve) -> None:  # T14
    async with serve(TaskSurface({}), works=False) as (http, _):
        task = {"id": "t", "name": "Print Hello", "owner": "someone", "command": "echo hello"}
        made = await http.put("/api/tasks", json=task)
        assert made.status_code == 200
        rest = {"args": [], "updatedAt": made.json()["updatedAt"], "taskExecutions": []}
        assert made.json() == {**task, **rest}
        again = await http.put("/api/tasks", json={**task, "name": "Print it"})
        assert (again.status_code, again.json()["name"]) == (200, "Print it")
        nameless = (await http.put("/api/tasks", json={"name": "x", "command": ["true"]})).json()
        assert nameless["id"].startswith("task-")
        listed = (await http.get("/api/tasks")).json()
        assert [each["id"] for each in listed] == ["t", nameless["id"]]
        assert (await http.get("/api/tasks/t")).json() == again.json()
        found = await http.get("/api/tasks/search", params={"name": "PRINT"})
        assert found.json() == [again.json()]
        assert (await http.get("/api/tasks/search?name=nothing")).status_code == 404
        assert (await http.delete("/api/tasks/t")).status_code == 204
        for method, path in (("GET", "/api/tasks/t"), ("DELETE", "/api/tasks/t")):
            assert (await http.request(method, path)).status_code == 404


async def test_errors_have_the_specified_format(serve: Serve) -> None:  # T14
    async with serve(TaskSurface({}), works=False) as (http, _):
        answer = await http.get("/api/tasks/none", headers={"X-Correlation-Id": "c-1"})
        said = answer.json()
        assert said.pop("timestamp").endswith("Z")
        assert said == {
            "status": 404,
            "error": "Not Found",
            "message": "there is no task 'none'",
            "path": "/api/tasks/none",
            "correlationId": "c-1",
        }
        assert answer.headers["X-Correlation-Id"] == "c-1"


@pytest.mark.parametrize(
    "task",
    [
        {},
        [],
        {"name": "x"},
        {"name": "x", "command": ""},
        {"name": "x", "command": []},
        {"name": "x", "command": "echo a; rm b"},
        {"name": "x", "command": "echo $(id)"},
        {"name": "x", "command": ["a\0b"]},
        {"name": "x", "command": "sudo id"},
        {"name": "x", "command": ["/bin/sh", "-c", "id"]},
        {"name": "x", "command": "true", "id": "a/b"},
        {"name": "x", "command": "true", "unknown": 1},
        {"name": "", "command": "true"},
    ],
)
async def test_invalid_task_is_rejected(serve: Serve, task: Any) -> None:
    async with serve(TaskSurface({}), works=False) as (http, _):
        answer = await http.put("/api/tasks", json=task)
        assert answer.status_code == 400, answer.text
        assert answer.json()["message"]
        assert (await http.get("/api/tasks")).json() == []


async def test_command_is_validated_without_running(serve: Serve) -> None:  # T14
    async with serve(TaskSurface({}), works=False) as (http, _):

        async def check(command: Any) -> httpx2.Response:
            return await http.post("/api/validation/command", json={"command": command})

        assert (await check("ls -l '/tmp'")).json() == {"valid": True, "argv": ["ls", "-l", "/tmp"]}
        piped = (await check("ls | wc")).json()
        assert piped["valid"] is False
        assert "pipe" in piped["reason"]
        for denied in ("bash -c id", "rm -rf /", "/bin/rm x", "dd if=/dev/zero", "mkfs.ext4 /x"):
            assert (await check(denied)).json()["valid"] is False, denied
        assert (await check(1)).status_code == 400


async def test_policy_applies_when_a_task_runs(serve: Serve, tmp_path: Path) -> None:  # T14
    policy = tmp_path / "policy.toml"
    policy.write_text('allow = ["echo"]\n')
    environment = {"EXEC_POLICY_FILE": str(policy)}
    async with serve(TaskSurface(environment), works=False) as (http, _):
        path = await put_task(http, "echo hello")
        waiting = await http.put(f"{path}?async=true")
        policy.write_text('allow = ["true"]\n# another length\n')
        refused = await http.put(f"{path}?async=true")
        assert (refused.status_code, "no rule" in refused.json()["message"]) == (400, True)
    async with serve(TaskSurface(environment)) as (http, _):
        shown = await wait_finished(http, waiting)
        assert (shown["status"], shown["exitCode"]) == ("FAILED", None)
        assert "no rule" in shown["stderr"]


async def test_cancelled_execution_is_failed(serve: Serve) -> None:
    async with serve(TaskSurface({}), works=False) as (http, _):
        path = await put_task(http, "true")
        accepted = await http.put(f"{path}?async=true")
        await http.post(f"/v1/jobs/{accepted.json()['executionId']}/cancel")
        shown = (await http.get(accepted.headers["Location"])).json()
        assert (shown["status"], shown["stderr"]) == ("FAILED", "cancelled")


async def test_tenants_are_isolated(serve: Serve) -> None:
    async with serve(TaskSurface({}), works=False) as (http, engine):
        mine, other = [
            {"X-Api-Key": (await engine.authenticator.create_key(tenant, scopes))[1]}
            for tenant in ("a", "b")
            for scopes in [["jobs:read", "jobs:write", "jobs:cancel"]]
        ]
        task = {"id": "t", "name": "x", "command": "true"}
        assert (await http.put("/api/tasks", json=task)).status_code == 401
        assert (await http.put("/api/tasks", json=task, headers=mine)).status_code == 200
        assert (await http.get("/api/tasks", headers=other)).json() == []
        assert (await http.put("/api/tasks/t/executions", headers=other)).status_code == 404


@pytest.mark.parametrize(
    "environment",
    [
        {"EXEC_ASYNC": "maybe"},
        {"EXEC_RUNNER": "moon"},
        {"K8S_ACTIVE_DEADLINE_SECONDS": "0"},
        {"EXEC_MAX_POLL_DURATION_SECONDS": "-1"},
        {"EXEC_POLICY_FILE": "/no/such/file"},
    ],
)
def test_invalid_setting_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"EXEC_|K8S_|policy"):
        TaskSurface(environment)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"argv": []}, "/argv"),
        ({"argv": [" "]}, "/argv"),
        ({"argv": ["x"] * 2_000}, "/argv"),
        ({"seconds": 0}, "/seconds"),
    ],
    ids=["nothing", "no name", "too much", "no time"],
)
async def test_invalid_command_is_rejected_as_a_job(
    serve: Serve, wrong: dict[str, Any], pointer: str
) -> None:
    async with serve(TaskSurface({}), works=False) as (http, _):
        asked = {"argv": ["true"], "seconds": 1, **wrong}
        answer = await http.post("/v1/jobs", json={"kind": "command", "input": asked})
        assert answer.status_code == 422, answer.text
        assert [error["pointer"] for error in answer.json()["errors"]] == [f"/input{pointer}"]


async def test_command_of_a_stopped_worker_is_not_retried(  # T: no retry
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(TaskSurface({})) as (http, engine):
        path = await put_task(http, ["sleep", "600"])
        accepted = await http.put(f"{path}?async=true")
        job_id = accepted.json()["executionId"]
        async with asyncio.timeout(60):
            while (await engine.get(job_id)).state != "running":  # noqa: ASYNC110 - no signal
                await asyncio.sleep(0.01)
    async with serve(TaskSurface({})) as (http, engine):
        shown = await wait_finished(http, accepted)
        assert (shown["status"], (await engine.get(job_id)).reason) == ("FAILED", "lost")


async def test_denied_command_is_neither_stored_nor_run(serve: Serve) -> None:  # T14
    async with serve(TaskSurface({})) as (http, engine):
        evil = {"id": "evil", "name": "Evil", "command": "rm -rf /"}
        assert (await http.put("/api/tasks", json=evil)).status_code == 400
        asked = {"kind": "command", "input": {"argv": ["rm", "-rf", "/"], "seconds": 5}}
        job_id = (await http.post("/v1/jobs", json=asked)).json()["id"]
        job = await engine.wait(job_id, 60)
        assert job.error is not None
        assert (job.error.code, "rm" in job.error.message) == ("refused", True)


async def test_tasks_are_listed_in_pages(serve: Serve) -> None:  # T14
    async with serve(TaskSurface({}), works=False) as (http, _):
        ids = [f"t-{number:03}" for number in range(105)]
        for task_id in ids:
            await put_task(http, "true", task_id)
        plain = await http.get("/api/tasks")
        assert [each["id"] for each in plain.json()] == ids[:100]
        assert plain.headers["Link"] == '</api/tasks?page=1&size=100>; rel="next"'
        page = (await http.get("/api/tasks?page=1&size=10")).json()
        assert [each["id"] for each in page["content"]] == ids[10:20]
        assert page["pageable"] == {"pageNumber": 1, "pageSize": 10}
        assert (page["totalElements"], page["totalPages"]) == (105, 11)
        assert (page["first"], page["last"]) == (False, False)
        last = (await http.get("/api/tasks?page=10&size=10")).json()
        assert ([each["id"] for each in last["content"]], last["last"]) == (ids[100:], True)
        beyond = await http.get("/api/tasks?page=11&size=10")
        assert (beyond.json()["content"], "Link" in beyond.headers) == ([], False)
        assert len((await http.get("/api/tasks?page=0")).json()["content"]) == 10
        assert len((await http.get("/api/tasks/search?name=task")).json()) == 100
        for query in ("page=-1", "size=0", "size=101", "page=x", "page=100001", "page=0&page=1"):
            assert (await http.get(f"/api/tasks?{query}")).status_code == 400, query


async def test_task_includes_its_executions(serve: Serve) -> None:  # T14
    """A task shows its newest executions, oldest first; in lists, without their output."""
    async with serve(TaskSurface({})) as (http, _):
        path = await put_task(http, ["echo", "hello"])
        ran = [(await http.put(path)).json()["executionId"] for _ in range(12)]
        await put_task(http, "true", "task-2")
        shown = (await http.get("/api/tasks/task-1")).json()["taskExecutions"]
        assert [each["executionId"] for each in shown] == ran[-10:]
        assert shown[0] == (await http.get(f"{path}/{ran[-10]}")).json()
        assert {each["stdout"] for each in shown} == {"hello\n"}
        [first, second] = (await http.get("/api/tasks")).json()
        assert [each["executionId"] for each in first["taskExecutions"]] == ran[-3:]
        assert set(first["taskExecutions"][0]) == {*EXECUTION, "durationMs", "completedAt"}
        assert second["taskExecutions"] == []
        [found] = (await http.get("/api/tasks/search?name=task-1")).json()
        assert found == first
        written = await http.put("/api/tasks", json={**WRITABLE, "command": "true"})
        assert written.json()["taskExecutions"] == first["taskExecutions"]


WRITABLE = {"id": "task-1", "name": "A task: task-1"}


async def test_write_only_key_does_not_see_executions(serve: Serve) -> None:
    async with serve(TaskSurface({}), works=False) as (http, engine):
        keys = {
            scope: {"X-Api-Key": (await engine.authenticator.create_key("a", [scope]))[1]}
            for scope in ("admin", "jobs:write")
        }
        task = {**WRITABLE, "command": "true"}
        await http.put("/api/tasks", json=task, headers=keys["admin"])
        await http.put("/api/tasks/task-1/executions?async=true", headers=keys["admin"])
        for scope, executions in (("admin", 1), ("jobs:write", 0)):
            answer = await http.put("/api/tasks", json=task, headers=keys[scope])
            assert len(answer.json()["taskExecutions"]) == executions


async def test_other_jobs_with_the_label_are_not_executions(serve: Serve) -> None:
    """A label alone does not make a job an execution."""
    async with serve(TaskSurface({}), works=False) as (http, _):
        await put_task(http, "true")
        asked = {"kind": "command", "input": {"argv": ["true"], "seconds": 5}}
        await http.post("/v1/jobs", json={**asked, "labels": {"task": "task-1"}})
        assert (await http.get("/api/tasks/task-1")).json()["taskExecutions"] == []


async def test_task_size_is_limited(serve: Serve) -> None:
    async with serve(TaskSurface({}), works=False) as (http, _):
        large = {"name": "x", "command": ["echo", "x" * 20_000]}
        assert (await http.put("/api/tasks", json=large)).status_code == 400


COLLECTION: list[tuple[str, str, Any, int]] = [
    ("PUT", "/api/tasks", {"id": "echo", "name": "Echo Task", "command": "echo hi"}, 200),
    ("PUT", "/api/tasks", {"id": "uname", "name": "Info Task", "command": "uname -a"}, 200),
    ("PUT", "/api/tasks", {"id": "date", "name": "Date Task", "command": "date"}, 200),
    ("PUT", "/api/tasks", {"id": "whoami", "name": "User Task", "command": "whoami"}, 200),
    ("GET", "/api/tasks?page=0&size=10", None, 200),
    ("GET", "/api/tasks/echo", None, 200),
    ("GET", "/api/tasks/search?name=Task", None, 200),
    ("PUT", "/api/tasks/echo/executions", None, 200),
    ("DELETE", "/api/tasks/date", None, 204),
    ("POST", "/api/validation/command", {"command": "echo test"}, True),
    ("POST", "/api/validation/command", {"command": "rm -rf /"}, False),
    ("POST", "/api/validation/command", {"command": "echo hello | grep h"}, False),
    ("POST", "/api/validation/command", {"command": "sudo whoami"}, False),
    ("PUT", "/api/tasks", {"id": "evil", "name": "Evil", "command": "rm -rf /"}, 400),
    ("PUT", "/api/tasks", {"id": "half", "name": "Incomplete"}, 400),
    ("GET", "/api/tasks/nonexistent", None, 404),
    ("PUT", "/api/tasks/nonexistent/executions", None, 404),
    ("GET", "/api/tasks/search?name=NonExistentTask", None, 404),
]


async def test_published_example_requests(serve: Serve) -> None:  # T14
    """The published example requests of this API, with their expected responses."""
    async with serve(TaskSurface({})) as (http, _):
        for method, path, body, expected in COLLECTION:
            answer = await http.request(method, path, json=body)
            if isinstance(expected, bool):
                assert (answer.status_code, answer.json()["valid"]) == (200, expected), body
            else:
                assert answer.status_code == expected, (method, path, answer.text)
        page = (await http.get("/api/tasks?page=0&size=10")).json()
        assert [each["id"] for each in page["content"]] == ["echo", "uname", "whoami"]
        [executed] = (await http.get("/api/tasks/echo")).json()["taskExecutions"]
        assert executed["stdout"] == "hi\n"
