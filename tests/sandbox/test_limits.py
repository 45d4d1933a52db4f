"""No program exceeds its limits, and none outlives its supervisor."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import SandboxAccess, SandboxBackend, SandboxLimits, confine
from tests.sandbox.conftest import MIB, Attempt

SMALL = SandboxLimits(seconds=30, memory_bytes=128 * MIB, processes=8, file_bytes=MIB)


def test_memory_is_limited(attempt: Attempt, backend: SandboxBackend) -> None:
    source = """
kept = []
for _ in range(64):
    kept.append(b'x' * 16 * 1024 * 1024)
print('TOOK IT')
"""
    ended = attempt(source, backend, limits=SMALL)
    assert ended.returncode != 0
    assert "TOOK IT" not in ended.stdout


def test_memory_is_limited_for_all_processes_together(
    attempt: Attempt, backend: SandboxBackend
) -> None:
    source = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        kept = b'x' * 60 * 1024 * 1024
        time.sleep(60)
        os._exit(0)
for _ in range(4):
    _, status = os.wait()
    if status:
        raise SystemExit('one was ended')
print('TOOK IT')
"""
    ended = attempt(source, backend, limits=SMALL)
    assert ended.returncode != 0
    assert "TOOK IT" not in ended.stdout


def test_memory_outside_of_processes_is_denied(attempt: Attempt, backend: SandboxBackend) -> None:
    source = """
import os
try:
    os.memfd_create('hoard')
    print('TOOK IT')
except OSError:
    print('no')
"""
    assert attempt(source, backend).stdout == "no\n"


def test_the_number_of_processes_is_limited(attempt: Attempt, backend: SandboxBackend) -> None:
    # At most 300, so that a broken sandbox does no harm.
    source = """
import os, time
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
except OSError as error:
    raise SystemExit(str(error))
time.sleep(60)
"""
    ended = attempt(source, backend, limits=SMALL)
    assert ended.returncode != 0
    assert "temporarily unavailable" in ended.stderr or "more than 8 processes" in ended.stderr


def test_the_size_of_a_file_is_limited(
    attempt: Attempt, backend: SandboxBackend, folder: Path
) -> None:
    source = """
with open('large', 'wb') as file:
    for _ in range(100):
        file.write(b'x' * 1024 * 1024)
        file.flush()
"""
    ended = attempt(source, backend, limits=SMALL)
    assert ended.returncode != 0
    assert (folder / "large").stat().st_size == MIB


# Each writes at most 64 MiB, in case the limit fails.
MANY_FILES = """
for number in range(64):
    with open(f'file-{number}', 'wb') as file:
        file.write(b'x' * 1024 * 1024)
"""
DEEP_FOLDERS = """
import os
for number in range(64):
    os.mkdir('folder-of-a-rather-long-name' * 8)
    os.chdir('folder-of-a-rather-long-name' * 8)
    with open('file', 'wb') as file:
        file.write(b'x' * 1024 * 1024)
"""
DELETED_FILES = """
import os
kept = []
for number in range(64):
    kept.append(open('file', 'wb', buffering=0))
    os.unlink('file')
    kept[-1].write(b'x' * 1024 * 1024)
"""
MAPPED_FILES = """
import mmap, os
kept = []
for number in range(64):
    with open('file', 'w+b') as file:
        os.unlink('file')
        os.ftruncate(file.fileno(), 1024 * 1024)
        kept.append(mmap.mmap(file.fileno(), 1024 * 1024))
    kept[-1][:] = b'x' * 1024 * 1024
"""
UNREADABLE_FOLDER = """
import os
os.umask(0)
os.mkdir('shut', 0o300)
for number in range(64):
    with open(f'shut/{number}', 'wb') as file:
        file.write(b'x' * 1024 * 1024)
os.chmod('shut', 0)
"""
DISK = SandboxLimits(seconds=30, file_bytes=2 * MIB, disk_bytes=8 * MIB)
STAY = "import time; time.sleep(600)"


@pytest.mark.parametrize(
    "source",
    [MANY_FILES, DEEP_FOLDERS, DELETED_FILES, MAPPED_FILES, UNREADABLE_FOLDER],
    ids=["many files", "deep folders", "deleted files", "mapped files", "unreadable folder"],
)
def test_disk_usage_is_limited_for_all_files_together(
    attempt: Attempt, backend: SandboxBackend, source: str
) -> None:
    ended = attempt(f"{source}\n{STAY}", backend, limits=DISK)
    assert ended.returncode == 137
    assert re.fullmatch(
        "sandbox: killed: (more than 8388608 bytes of disk"
        "|folders nested deeper than a path is long|a folder whose files cannot be counted)\n",
        ended.stderr,
    )


def test_disk_usage_within_the_limit_is_allowed(attempt: Attempt, backend: SandboxBackend) -> None:
    source = """
import time
for number in range(6):
    open(f'{number}', 'wb').write(b'x' * 1024 * 1024)
time.sleep(0.5)
print('written')
"""
    assert attempt(source, backend, limits=DISK).stdout == "written\n"


def test_the_number_of_files_is_limited(attempt: Attempt, backend: SandboxBackend) -> None:
    source = f"for number in range(2000): open(str(number), 'w').close()\n{STAY}"
    ended = attempt(source, backend, limits=SandboxLimits(seconds=30, files=1000))
    assert (ended.returncode, ended.stderr) == (137, "sandbox: killed: more than 1000 files\n")


def test_time_is_limited_even_if_signals_are_ignored(
    attempt: Attempt, backend: SandboxBackend
) -> None:
    source = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('started', flush=True)
while True:
    time.sleep(60)
"""
    ended = attempt(source, backend, limits=SandboxLimits(seconds=0.5))
    assert (ended.returncode, ended.stdout) == (124, "started\n")
    assert ended.stderr == "sandbox: timed out after 0.5 s\n"


def test_no_process_is_left_behind(attempt: Attempt, backend: SandboxBackend) -> None:
    # Processes in sessions of their own inherit the pipe: it closes when they end.
    source = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print('done')
"""
    ended = attempt(source, backend)
    assert (ended.returncode, ended.stdout) == (0, "done\n")


def test_terminating_the_supervisor_ends_the_program(backend: SandboxBackend, folder: Path) -> None:
    confined = confine(
        ["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; sleep 600 & wait"],
        access=SandboxAccess(write=(folder,)),
        limits=SandboxLimits(seconds=60),
        backend=backend,
    )
    with subprocess.Popen(confined.argv, **confined.options, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"up\n"
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.stdout.read() == b"bye\n"
    assert supervisor.returncode == 3


def test_killing_the_supervisor_kills_the_program(backend: SandboxBackend, folder: Path) -> None:
    confined = confine(
        ["sh", "-c", "echo up; read -r line; echo went on"],
        access=SandboxAccess(write=(folder,)),
        limits=SandboxLimits(seconds=60),
        backend=backend,
    )
    with subprocess.Popen(
        confined.argv, **confined.options, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"up\n"
        os.killpg(supervisor.pid, signal.SIGKILL)
        assert supervisor.stdout.read() == b""
    assert supervisor.returncode == -signal.SIGKILL


STARTER = """
import pathlib, subprocess, sys
from coatcheck.sandbox import SandboxLimits, SandboxAccess, SandboxBackend, confine
folder = pathlib.Path(sys.argv[1])
confined = confine(
    ["sh", "-c", "touch made; echo up; sleep 600"], access=SandboxAccess(write=(folder,)),
    limits=SandboxLimits(seconds=600), temporary=True, backend=SandboxBackend(sys.argv[2]),
)
subprocess.run(confined.argv, **confined.options)
"""


def test_a_supervisor_whose_parent_dies_ends_and_cleans_up(
    backend: SandboxBackend, folder: Path
) -> None:
    argv = [sys.executable, "-c", STARTER, str(folder), backend.value]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        assert (folder / "made").exists()
        starter.kill()
        # The pipe closes when the program and its supervisor have ended.
        assert starter.stdout.read() == b""
    assert not folder.exists()


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["sh", "-c", "exit 7"], 7, ""),
        (["sh", "-c", "kill -KILL $$"], 137, ""),
        (["sh", "-c", "kill -SEGV $$"], 139, ""),
        (["no-such-program"], 127, "sandbox: no-such-program: command not found\n"),
        (["/etc"], 126, "sandbox: /etc: not executable\n"),
    ],
)
def test_exit_codes(
    backend: SandboxBackend, folder: Path, argv: list[str], code: int, said: str
) -> None:
    confined = confine(
        argv,
        access=SandboxAccess(write=(folder,)),
        limits=SandboxLimits(seconds=30),
        backend=backend,
    )
    ended = subprocess.run(
        confined.argv, **confined.options, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, said)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0},
        {"seconds": float("nan")},
        {"processes": 0},
        {"memory_bytes": -1},
        {"disk_bytes": 0},
    ],
)
def test_invalid_limits_are_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="limits"):
        SandboxLimits(**wrong)
