"""Commands as Jobs: the same tests for our small cluster and for a real one."""  # T14

from __future__ import annotations

import asyncio

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.tasks.runners.kubernetes import KubernetesRunner
from coatcheck.surfaces.tasks.runners.kubernetes.cluster import Cluster
from coatcheck.surfaces.tasks.runners.names import job_name
from coatcheck.surfaces.tasks.runners.runner import (
    ImageInvalid,
    ImageUnavailable,
    NotScheduled,
)
from tests.surfaces.tasks.kubernetes.conftest import NAMESPACE, MakeRunner, command, first

pytestmark = pytest.mark.anyio
KIB = 1024


async def test_a_command_runs_and_says_how_it_went(runner: KubernetesRunner) -> None:
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    ran = await runner.run(command("sh", "-c", "echo out; echo err >&2; exit 3"), on_output=tell)
    assert (ran.exit_code, ran.timed_out, ran.truncated) == (3, False, ())
    assert ran.stdout == "out\nerr\n" == "".join(told), "Kubernetes keeps one log for both"
    assert ran.stderr == ""
    assert 0 < ran.started_at <= ran.finished_at


async def test_no_shell_reads_it_and_no_variable_is_put_in(runner: KubernetesRunner) -> None:
    ran = await runner.run(command("echo", "$HOME", "$(HOME)", "$$(HOME)", "a;b", "*"))
    assert ran.stdout == "$HOME $(HOME) $$(HOME) a;b *\n"


async def test_it_works_in_a_folder_that_it_may_write_to(runner: KubernetesRunner) -> None:
    ran = await runner.run(command("sh", "-c", "echo kept > file && cat file"))
    assert (ran.exit_code, ran.stdout) == (0, "kept\n")


async def test_a_command_that_does_not_exist(runner: KubernetesRunner) -> None:
    ran = await runner.run(command("no-such-command"))
    assert ran.exit_code == 127
    assert "no-such-command" in ran.stderr


async def test_output_is_told_while_it_runs(runner: KubernetesRunner) -> None:
    heard = asyncio.Event()

    async def tell(_text: str) -> None:
        heard.set()

    slow = command("sh", "-c", "echo up; sleep 600")
    running = asyncio.create_task(runner.run(slow, on_output=tell))
    await first(heard, running)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_output_past_the_cap_is_cut(runner: KubernetesRunner) -> None:
    ran = await runner.run(command("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' o"))
    assert ran.truncated == ("stdout",)
    assert len(ran.stdout.encode()) <= 128 * KIB
    assert ran.stdout.endswith("o\n[cut off: more than 131072 bytes]\n")


async def test_its_deadline_ends_it(runner: KubernetesRunner) -> None:
    # T06
    ran = await runner.run(command("sh", "-c", "echo up; exec sleep 600", seconds=2))
    assert (ran.exit_code, ran.timed_out) == (124, True)
    assert ran.stdout == "up\n"


async def test_cancelling_deletes_the_job(
    runner: KubernetesRunner, config: object, make_runner: MakeRunner
) -> None:
    heard = asyncio.Event()

    async def tell(_text: str) -> None:
        heard.set()

    slow = command("sh", "-c", "echo up; exec sleep 600")
    running = asyncio.create_task(runner.run(slow, on_output=tell))
    await first(heard, running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # The same execution again: it waits until the old Job has gone, and starts another.
    again = command("echo", "again", name=slow.name)
    assert (await runner.run(again)).stdout == "again\n"


async def test_a_job_that_runs_is_taken_over(runner: KubernetesRunner, config: object) -> None:
    begun, second = asyncio.Event(), asyncio.Event()

    async def tell_first(_text: str) -> None:
        begun.set()

    async def tell_second(_text: str) -> None:
        second.set()

    long = command("sh", "-c", "echo $$; sleep 2")
    crashed = asyncio.create_task(runner.run(long, on_output=tell_first))
    await first(begun, crashed)
    taken_over = asyncio.create_task(runner.run(long, on_output=tell_second))
    one, other = await asyncio.gather(crashed, taken_over)
    assert second.is_set()
    assert one.stdout == other.stdout, "the same process"
    assert one.stdout.strip().isdigit()


async def test_a_job_that_has_ended_is_taken_over(runner: KubernetesRunner) -> None:
    once = command("sh", "-c", "echo $$ $(date +%s%N); exit 5")
    ran = await runner.run(once)
    again = await runner.run(once)
    assert (again.exit_code, again.stdout) == (5, ran.stdout)


async def test_an_image_that_cannot_be_pulled(make_runner: MakeRunner) -> None:
    runner = make_runner(executor_image="registry.invalid/none:1")
    with pytest.raises(ImageUnavailable, match="cannot be had") as failed:
        await runner.run(command("true"))
    assert (failed.value.code, failed.value.retryable) == ("image-unavailable", True)


async def test_an_image_whose_name_is_none(make_runner: MakeRunner) -> None:
    with pytest.raises(ImageInvalid, match="cannot be read"):
        await make_runner(executor_image="Not:An:Image").run(command("true"))


async def test_a_command_that_no_machine_has_room_for(make_runner: MakeRunner) -> None:
    runner = make_runner(memory_request="900Ti", memory_limit="900Ti")
    with pytest.raises(NotScheduled, match="nodes are available") as failed:
        await runner.run(command("true", seconds=2))
    assert failed.value.retryable


async def test_names_fit_and_differ() -> None:
    ids = ["a", "A", "", "é", "x" * 500, "01JABCDEFGHJKMNPQRSTVWXYZ0", "../../etc", "a" * 40 + "-b"]
    names = [job_name(tenant, one) for tenant in ("t", "u") for one in ids]
    assert len(set(names)) == 2 * len(ids)
    for name in names:
        assert len(name) <= 63
        assert name.replace("-", "a").isalnum()
        assert name == name.lower()
        assert name[-1] != "-"
    assert job_name("t", "a") == job_name("t", "a")


async def test_no_cluster_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    with pytest.raises(ConfigurationError, match="no cluster is configured"):
        Cluster(NAMESPACE, None, 1)
