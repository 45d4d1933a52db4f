"""The local runner: real commands, really ended, and nothing left of them."""  # T15

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
from coatcheck.surfaces.tasks.runners.folder import Folder, remove_leftovers

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


def inside(folder: Path, pattern: str = "*") -> list[Path]:
    return list(folder.glob(pattern))


def command(*argv: str, seconds: float = 60) -> Command:
    return Command(argv, "execution-1", seconds)


def python(source: str, seconds: float = 60) -> Command:
    return command(PYTHON, "-I", "-S", "-c", source, seconds=seconds)


@pytest.fixture(params=["asyncio", "uvloop"])
def do(request: pytest.FixtureRequest) -> Any:
    """Run on both event loops: each has its own way with processes."""

    def run(work: Coroutine[Any, Any, T]) -> T:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(work)

    return run


def test_a_command_runs_and_says_how_it_went(runner: LocalRunner, do: Any, folders: Path) -> None:
    ran: CommandResult = do(
        runner.run(command("sh", "-c", "echo out; echo err >&2; pwd; ls -A; exit 3"))
    )
    assert ran.exit_code == 3
    out, place = ran.stdout.splitlines()
    assert out == "out"
    assert Path(place).parent == folders, "in an empty folder of its own"
    assert ran.stderr == "err\n"
    assert (ran.timed_out, ran.truncated) == (False, ())
    assert 0 < ran.started_at <= ran.finished_at
    assert inside(folders) == []


async def test_no_shell_reads_it(runner: LocalRunner) -> None:
    ran = await runner.run(command("echo", "$HOME; id", "*", "`id`"))
    assert ran.stdout == "$HOME; id * `id`\n"


async def test_stdin_is_empty(runner: LocalRunner) -> None:
    assert (await runner.run(command("cat"))).stdout == ""


async def test_a_command_that_does_not_exist(runner: LocalRunner) -> None:
    ran = await runner.run(command("no-such-command", "x"))
    assert ran.exit_code == 127
    assert "no-such-command: command not found" in ran.stderr


@pytest.mark.parametrize(("number", "code"), [(9, 137), (11, 139), (15, 143)])
async def test_signals(runner: LocalRunner, number: int, code: int) -> None:
    ran = await runner.run(command("sh", "-c", f"kill -{number} $$"))
    assert (ran.exit_code, ran.timed_out) == (code, False)


def test_output_past_the_cap_is_read_and_cut(runner: LocalRunner, do: Any) -> None:
    # 4 MB on each, far more than a pipe holds, written to both in turn.
    source = """
import os
for _ in range(64):
    os.write(1, b'o' * 65536)
    os.write(2, b'e' * 65536)
"""
    ran: CommandResult = do(runner.run(python(source)))
    assert ran.exit_code == 0
    assert ran.truncated == ("stdout", "stderr")
    assert len(ran.stdout.encode()) <= 128 * KIB
    assert len(ran.stderr.encode()) <= 64 * KIB
    kept = 128 * KIB - 64
    assert ran.stdout == "o" * kept + "\n[cut off: more than 131072 bytes]\n"


async def test_output_of_exactly_the_cap_is_whole(runner: LocalRunner) -> None:
    ran = await runner.run(python(f"print('x' * {128 * KIB}, end='')"))
    assert (ran.stdout, ran.truncated) == ("x" * 128 * KIB, ())


async def test_a_cut_goes_through_no_character(runner: LocalRunner) -> None:
    ran = await runner.run(python(f"print('☂' * {128 * KIB})"))
    assert ran.truncated == ("stdout",)
    assert set(ran.stdout.split("\n")[0]) == {"☂"}


async def test_bytes_that_are_no_text(runner: LocalRunner) -> None:
    source = r"import os; os.write(1, b'a\xff\xfeb\0c\xe2\x98'); os.write(2, b'\xed\xa0\x80')"
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    ran = await runner.run(python(source), on_output=tell)
    assert ran.stdout == "a\ufffd\ufffdb\ufffdc\ufffd" == "".join(told)
    assert set(ran.stderr) == {"\ufffd"}


async def test_output_is_told_while_it_runs(runner: LocalRunner, folders: Path) -> None:
    told: list[str] = []
    heard = asyncio.Event()

    async def tell(text: str) -> None:
        told.append(text)
        # The command waits for this file, so it is running now.
        (place,) = inside(folders)
        (place / "heard").touch()
        heard.set()

    source = "echo one; while [ ! -e heard ]; do sleep 0.02; done; echo two"
    ran = await runner.run(command("sh", "-c", source), on_output=tell)
    assert heard.is_set()
    assert told[0] == "one\n"
    assert "".join(told) == ran.stdout == "one\ntwo\n"


async def test_a_slow_listener_does_not_stop_the_command(
    runner: LocalRunner, folders: Path
) -> None:
    ended = asyncio.Event()
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)
        await ended.wait()

    async def release() -> None:
        while not inside(folders, "*/done"):  # noqa: ASYNC110 — another process makes it
            await asyncio.sleep(0.01)
        ended.set()

    source = "import os\nfor _ in range(64): os.write(1, b'o' * 65536)\nopen('done', 'w')"
    ran, _ = await asyncio.gather(runner.run(python(source), on_output=tell), release())
    assert ran.exit_code == 0
    assert len("".join(told)) == 128 * KIB


async def test_a_listener_that_fails_ends_the_command(runner: LocalRunner, folders: Path) -> None:
    async def tell(_text: str) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await runner.run(command("sh", "-c", "echo x; sleep 600"), on_output=tell)
    assert inside(folders) == []


# Two generations, one of them in a session of its own, none of which listens to SIGTERM.
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


def test_time_that_runs_out_ends_everybody(runner: LocalRunner, do: Any, folders: Path) -> None:
    ran: CommandResult = do(runner.run(python(STUBBORN, seconds=1.0)))
    # T06
    assert (ran.exit_code, ran.timed_out) == (124, True)
    assert set(ran.stdout.split()) <= {"up"}
    assert ran.stderr == ""
    assert inside(folders) == []


def test_cancelling_ends_everybody_before_it_returns(
    runner: LocalRunner, do: Any, folders: Path
) -> None:
    pids: list[int] = []

    async def cancelled() -> None:
        up = asyncio.Event()
        heard = ""

        async def tell(text: str) -> None:
            nonlocal heard
            heard += text
            if heard == "up\n" * 3:
                up.set()

        running = asyncio.create_task(runner.run(python(STUBBORN), on_output=tell))
        await up.wait()
        pids.extend(int(path.name[4:]) for path in inside(folders, "*/pid-*"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert inside(folders) == []

    do(cancelled())
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
    assert inside(folders) == []


async def test_limits_hold(folders: Path) -> None:
    small = SandboxLimits(memory_bytes=64 * KIB * KIB, processes=4, file_bytes=KIB * KIB)
    runner = LocalRunner(folders=folders, limits=small, read=(Path(sys.base_prefix),))
    ran = await runner.run(python("b'x' * 512 * 1024 * 1024"))
    assert ran.exit_code != 0
    ran = await runner.run(command("sh", "-c", "head -c 9000000 /dev/zero > f; wc -c < f"))
    assert ran.stdout.strip() == str(KIB * KIB)


async def test_a_sandbox_that_cannot_be_made_is_said(folders: Path, tmp_path: Path) -> None:
    runner = LocalRunner(folders=folders, read=(tmp_path / "missing",))
    with pytest.raises(RunnerError, match="missing") as failed:
        await runner.run(command("true"))
    assert (failed.value.code, failed.value.retryable) == ("sandbox-failed", False)
    assert inside(folders) == []


def test_a_folder_goes_whatever_is_in_it(folders: Path) -> None:
    made = Folder(folders)
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
        for _ in range(1500):  # deeper than Python recurses and than a path is long
            Path("deep").mkdir()
            os.chdir("deep")
    finally:
        os.chdir(here)
        os.close(here)
    made.remove()
    assert inside(folders) == [outside]
    assert outside.read_text() == "stays"


def test_what_a_killed_process_leaves_is_removed_and_what_is_in_use_is_not(folders: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from coatcheck.surfaces.tasks.runners.folder import Folder\n"
        "made = Folder(Path(sys.argv[1]))\n"
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
        mine = Folder(folders)
        assert remove_leftovers(folders, unclaimed_s=0) == 0
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert remove_leftovers(folders) == 0, "it is a moment old"
        assert theirs.exists()
        assert remove_leftovers(folders, unclaimed_s=0) == 1
    assert inside(folders) == [mine.path]
    mine.remove()
