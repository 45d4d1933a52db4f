"""The local runner: real commands are ended and leave nothing behind."""  # T15

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from coatcheck.sandbox import SandboxLimits
from coatcheck.surfaces.tasks.runners import Command, CommandResult, LocalRunner, RunnerError
from coatcheck.surfaces.tasks.runners.scratch_folder import ScratchFolder, remove_leftovers

pytestmark = pytest.mark.anyio

T = TypeVar("T")
PYTHON = os.path.realpath(sys.executable)
KIB = 1024


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    (tmp_path / "folders").mkdir()
    return tmp_path / "folders"


@pytest.fixture
def runner(folders: Path) -> LocalRunner:
    return LocalRunner(folders=folders, read=(Path(sys.base_prefix),))


def entries(folder: Path, pattern: str = "*") -> list[Path]:
    return list(folder.glob(pattern))


def command(*argv: str, seconds: float = 60) -> Command:
    return Command(argv, "execution-1", seconds)


def python(source: str, seconds: float = 60) -> Command:
    return command(PYTHON, "-I", "-S", "-c", source, seconds=seconds)


@pytest.fixture(params=["asyncio", "uvloop"])
def run_on_loop(request: pytest.FixtureRequest) -> Any:
    """Run on both event loops: each handles processes in its own way."""

    def run(work: Coroutine[Any, Any, T]) -> T:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(work)

    return run


def test_command_runs_and_returns_its_outcome(
    runner: LocalRunner, run_on_loop: Any, folders: Path
) -> None:
    result: CommandResult = run_on_loop(
        runner.run(command("sh", "-c", "echo out; echo err >&2; pwd; ls -A; exit 3"))
    )
    assert result.exit_code == 3
    out, place = result.stdout.splitlines()
    assert out == "out"
    assert Path(place).parent == folders, "in an empty folder of its own"
    assert result.stderr == "err\n"
    assert (result.timed_out, result.truncated) == (False, ())
    assert 0 < result.started_at <= result.finished_at
    assert entries(folders) == []


async def test_no_shell(runner: LocalRunner) -> None:
    result = await runner.run(command("echo", "$HOME; id", "*", "`id`"))
    assert result.stdout == "$HOME; id * `id`\n"


async def test_stdin_is_empty(runner: LocalRunner) -> None:
    assert (await runner.run(command("cat"))).stdout == ""


async def test_missing_command(runner: LocalRunner) -> None:
    result = await runner.run(command("no-such-command", "x"))
    assert result.exit_code == 127
    assert "no-such-command: command not found" in result.stderr


@pytest.mark.parametrize(("number", "code"), [(9, 137), (11, 139), (15, 143)])
async def test_signals(runner: LocalRunner, number: int, code: int) -> None:
    result = await runner.run(command("sh", "-c", f"kill -{number} $$"))
    assert (result.exit_code, result.timed_out) == (code, False)


def test_output_beyond_the_cap_is_drained_and_truncated(
    runner: LocalRunner, run_on_loop: Any
) -> None:
    # 4 MB on each, far more than a pipe holds, written to both in turn.
    source = """
import os
for _ in range(64):
    os.write(1, b'o' * 65536)
    os.write(2, b'e' * 65536)
"""
    result: CommandResult = run_on_loop(runner.run(python(source)))
    assert result.exit_code == 0
    assert result.truncated == ("stdout", "stderr")
    assert len(result.stdout.encode()) <= 128 * KIB
    assert len(result.stderr.encode()) <= 64 * KIB
    kept = 128 * KIB - 64
    assert result.stdout == "o" * kept + "\n[cut off: more than 131072 bytes]\n"


async def test_output_of_exactly_the_cap_is_complete(runner: LocalRunner) -> None:
    result = await runner.run(python(f"print('x' * {128 * KIB}, end='')"))
    assert (result.stdout, result.truncated) == ("x" * 128 * KIB, ())


async def test_truncation_does_not_split_a_character(runner: LocalRunner) -> None:
    result = await runner.run(python(f"print('☂' * {128 * KIB})"))
    assert result.truncated == ("stdout",)
    assert set(result.stdout.split("\n")[0]) == {"☂"}


async def test_output_that_is_not_text(runner: LocalRunner) -> None:
    source = r"import os; os.write(1, b'a\xff\xfeb\0c\xe2\x98'); os.write(2, b'\xed\xa0\x80')"
    output: list[str] = []

    async def on_output(text: str) -> None:
        output.append(text)

    result = await runner.run(python(source), on_output=on_output)
    assert result.stdout == "a\ufffd\ufffdb\ufffdc\ufffd" == "".join(output)
    assert set(result.stderr) == {"\ufffd"}


async def test_output_is_relayed_while_it_runs(runner: LocalRunner, folders: Path) -> None:
    output: list[str] = []
    heard = asyncio.Event()

    async def on_output(text: str) -> None:
        output.append(text)
        # The command waits for this file, so it is running now.
        (place,) = entries(folders)
        (place / "heard").touch()
        heard.set()

    source = "echo one; while [ ! -e heard ]; do sleep 0.02; done; echo two"
    result = await runner.run(command("sh", "-c", source), on_output=on_output)
    assert heard.is_set()
    assert output[0] == "one\n"
    assert "".join(output) == result.stdout == "one\ntwo\n"


async def test_slow_listener_does_not_block_the_command(runner: LocalRunner, folders: Path) -> None:
    ended = asyncio.Event()
    output: list[str] = []

    async def on_output(text: str) -> None:
        output.append(text)
        await ended.wait()

    async def release() -> None:
        while not entries(folders, "*/done"):  # noqa: ASYNC110 — another process makes it
            await asyncio.sleep(0.01)
        ended.set()

    source = "import os\nfor _ in range(64): os.write(1, b'o' * 65536)\nopen('done', 'w')"
    result, _ = await asyncio.gather(runner.run(python(source), on_output=on_output), release())
    assert result.exit_code == 0
    assert len("".join(output)) == 128 * KIB


async def test_failing_listener_ends_the_command(runner: LocalRunner, folders: Path) -> None:
    async def on_output(_text: str) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await runner.run(command("sh", "-c", "echo x; sleep 600"), on_output=on_output)
    assert entries(folders) == []


# Two generations, one of them in a session of its own, all ignoring SIGTERM.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.fork()
open(f'pid-{os.getpid()}', 'w')
print('up', flush=True)
time.sleep(600)
"""


def test_timeout_ends_all_processes(runner: LocalRunner, run_on_loop: Any, folders: Path) -> None:
    result: CommandResult = run_on_loop(runner.run(python(STUBBORN, seconds=1.0)))
    # T06
    assert (result.exit_code, result.timed_out) == (124, True)
    assert set(result.stdout.split()) <= {"up"}
    assert result.stderr == ""
    assert entries(folders) == []


def test_cancelling_ends_all_processes_before_it_returns(
    runner: LocalRunner, run_on_loop: Any, folders: Path
) -> None:
    pids: list[int] = []

    async def cancelled() -> None:
        up = asyncio.Event()
        heard = ""

        async def on_output(text: str) -> None:
            nonlocal heard
            heard += text
            if heard == "up\n" * 3:
                up.set()

        running = asyncio.create_task(runner.run(python(STUBBORN), on_output=on_output))
        await up.wait()
        pids.extend(int(path.name[4:]) for path in entries(folders, "*/pid-*"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert entries(folders) == []

    run_on_loop(cancelled())
    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_cancelling_at_any_moment_leaves_nothing(runner: LocalRunner, folders: Path) -> None:
    for exponent in range(15):
        running = asyncio.create_task(runner.run(command("sleep", "600")))
        for _ in range(2**exponent - 1):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert entries(folders) == []


async def test_limits_are_enforced(folders: Path) -> None:
    small = SandboxLimits(memory_bytes=64 * KIB * KIB, processes=4, file_bytes=KIB * KIB)
    runner = LocalRunner(folders=folders, limits=small, read=(Path(sys.base_prefix),))
    result = await runner.run(python("b'x' * 512 * 1024 * 1024"))
    assert result.exit_code != 0
    result = await runner.run(command("sh", "-c", "head -c 9000000 /dev/zero > f; wc -c < f"))
    assert result.stdout.strip() == str(KIB * KIB)


async def test_sandbox_failure_is_reported(folders: Path, tmp_path: Path) -> None:
    runner = LocalRunner(folders=folders, read=(tmp_path / "missing",))
    with pytest.raises(RunnerError, match="missing") as failed:
        await runner.run(command("true"))
    assert (failed.value.code, failed.value.retryable) == ("sandbox-failed", False)
    assert entries(folders) == []


def test_folder_with_hostile_content_is_deleted(folders: Path) -> None:
    made = ScratchFolder(folders)
    folder = made.path
    outside = folders / "outside"
    outside.write_text("stays")
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to("nowhere")
    (folder / "shut").mkdir()
    (folder / "shut" / "file").touch()
    (folder / "shut").chmod(0)
    os.mkfifo(folder / "pipe")
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        for _ in range(1500):  # deeper than Python's recursion limit and longer than a path may be
            Path("deep").mkdir()
            os.chdir("deep")
    finally:
        os.chdir(here)
        os.close(here)
    made.remove()
    assert entries(folders) == [outside]
    assert outside.read_text() == "stays"


def test_leftovers_are_deleted_but_folders_in_use_are_not(folders: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from coatcheck.surfaces.tasks.runners.scratch_folder import ScratchFolder\n"
        "made = ScratchFolder(Path(sys.argv[1]))\n"
        "(made.path / 'left').mkdir()\n"
        "print(made.path, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folders)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        mine = ScratchFolder(folders)
        assert remove_leftovers(folders, unclaimed_s=0) == 0
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert remove_leftovers(folders) == 0, "it is too new"
        assert theirs.exists()
        assert remove_leftovers(folders, unclaimed_s=0) == 1
    assert entries(folders) == [mine.path]
    mine.remove()
