"""Commands as Jobs: the same tests for the fake cluster and for a real one."""  # T14

from __future__ import annotations

import asyncio

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.tasks.runners.kubernetes import KubernetesRunner
from coatcheck.surfaces.tasks.runners.kubernetes.cluster import Cluster
from coatcheck.surfaces.tasks.runners.runner import (
    ImageInvalid,
    ImageUnavailable,
    NotScheduled,
    job_name,
)
from tests.surfaces.tasks.kubernetes.conftest import NAMESPACE, MakeRunner, command, first

pytestmark = pytest.mark.anyio
KIB = 1024


async def test_command_runs_and_returns_its_outcome(runner: KubernetesRunner) -> None:
    output: list[str] = []

    async def on_output(text: str) -> None:
        output.append(text)

    result = await runner.run(
        command("sh", "-c", "echo out; echo err >&2; exit 3"), on_output=on_output
    )
    assert (result.exit_code, result.timed_out, result.truncated) == (3, False, ())
    assert result.stdout == "out\nerr\n" == "".join(output), "Kubernetes keeps one log for both"
    assert result.stderr == ""
    assert 0 < result.started_at <= result.finished_at


async def test_no_shell_and_no_variable_expansion(runner: KubernetesRunner) -> None:
    result = await runner.run(command("echo", "$HOME", "$(HOME)", "$$(HOME)", "a;b", "*"))
    assert result.stdout == "$HOME $(HOME) $$(HOME) a;b *\n"


async def test_working_folder_is_writable(runner: KubernetesRunner) -> None:
    result = await runner.run(command("sh", "-c", "echo kept > file && cat file"))
    assert (result.exit_code, result.stdout) == (0, "kept\n")


async def test_missing_command(runner: KubernetesRunner) -> None:
    result = await runner.run(command("no-such-command"))
    assert result.exit_code == 127
    assert "no-such-command" in result.stderr


async def test_output_is_relayed_while_it_runs(runner: KubernetesRunner) -> None:
    heard = asyncio.Event()

    async def on_output(_text: str) -> None:
        heard.set()

    slow = command("sh", "-c", "echo up; sleep 600")
    running = asyncio.create_task(runner.run(slow, on_output=on_output))
    await first(heard, running)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_output_beyond_the_cap_is_truncated(runner: KubernetesRunner) -> None:
    result = await runner.run(command("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' o"))
    assert result.truncated == ("stdout",)
    assert len(result.stdout.encode()) <= 128 * KIB
    assert result.stdout.endswith("o\n[cut off: more than 131072 bytes]\n")


async def test_deadline_ends_the_command(runner: KubernetesRunner) -> None:
    # T06
    result = await runner.run(command("sh", "-c", "echo up; exec sleep 600", seconds=2))
    assert (result.exit_code, result.timed_out) == (124, True)
    assert result.stdout == "up\n"


async def test_cancelling_deletes_the_job(
    runner: KubernetesRunner, config: object, make_runner: MakeRunner
) -> None:
    heard = asyncio.Event()

    async def on_output(_text: str) -> None:
        heard.set()

    slow = command("sh", "-c", "echo up; exec sleep 600")
    running = asyncio.create_task(runner.run(slow, on_output=on_output))
    await first(heard, running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # The same execution again: it waits until the old Job is gone, and starts another.
    again = command("echo", "again", name=slow.name)
    assert (await runner.run(again)).stdout == "again\n"


async def test_running_job_is_taken_over(runner: KubernetesRunner, config: object) -> None:
    begun, second = asyncio.Event(), asyncio.Event()

    async def on_first_output(_text: str) -> None:
        begun.set()

    async def on_second_output(_text: str) -> None:
        second.set()

    long = command("sh", "-c", "echo $$; sleep 2")
    crashed = asyncio.create_task(runner.run(long, on_output=on_first_output))
    await first(begun, crashed)
    taken_over = asyncio.create_task(runner.run(long, on_output=on_second_output))
    one, other = await asyncio.gather(crashed, taken_over)
    assert second.is_set()
    assert one.stdout == other.stdout, "the same process"
    assert one.stdout.strip().isdigit()


async def test_finished_job_is_taken_over(runner: KubernetesRunner) -> None:
    once = command("sh", "-c", "echo $$ $(date +%s%N); exit 5")
    result = await runner.run(once)
    again = await runner.run(once)
    assert (again.exit_code, again.stdout) == (5, result.stdout)


async def test_image_that_cannot_be_pulled(make_runner: MakeRunner) -> None:
    runner = make_runner(executor_image="registry.invalid/none:1")
    with pytest.raises(ImageUnavailable, match="cannot be pulled") as failed:
        await runner.run(command("true"))
    assert (failed.value.code, failed.value.retryable) == ("image-unavailable", True)


async def test_invalid_image_name(make_runner: MakeRunner) -> None:
    with pytest.raises(ImageInvalid, match="is invalid"):
        await make_runner(executor_image="Not:An:Image").run(command("true"))


async def test_command_without_capacity(make_runner: MakeRunner) -> None:
    runner = make_runner(memory_request="900Ti", memory_limit="900Ti")
    with pytest.raises(NotScheduled, match="nodes are available") as failed:
        await runner.run(command("true", seconds=2))
    assert failed.value.retryable


async def test_job_names_are_valid_and_distinct() -> None:
    ids = ["a", "A", "", "é", "x" * 500, "01JABCDEFGHJKMNPQRSTVWXYZ0", "../../etc", "a" * 40 + "-b"]
    names = [job_name(tenant, one) for tenant in ("t", "u") for one in ids]
    assert len(set(names)) == 2 * len(ids)
    for name in names:
        assert len(name) <= 63
        assert name.replace("-", "a").isalnum()
        assert name == name.lower()
        assert name[-1] != "-"
    assert job_name("t", "a") == job_name("t", "a")


async def test_missing_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    with pytest.raises(ConfigurationError, match="no cluster is configured"):
        Cluster(NAMESPACE, None, 1)
