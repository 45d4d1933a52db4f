"""A program changes nothing outside its folder, even by calls that Landlock does not mediate."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck.sandbox import SandboxBackend
from coatcheck.sandbox.detect import detect_users
from tests.sandbox.conftest import Attempt

# Raw system calls bypass checks of the C library. Prints each call that worked.
PRELUDE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    number = NUMBERS.get(name)
    if number is not None:
        if libc.syscall(number, *arguments) >= 0:
            print('DONE', name)
"""
NUMBERS = """
import platform
ARM = platform.machine() == 'aarch64'
NUMBERS = dict(
    chmod=None if ARM else 90, fchmodat=53 if ARM else 268, fchmodat2=452, fchmod=52 if ARM else 91,
    lchown=None if ARM else 94, fchownat=54 if ARM else 260, utimensat=88 if ARM else 280,
    utime=None if ARM else 132, utimes=None if ARM else 235, futimesat=None if ARM else 261,
    setxattr=5 if ARM else 188, lsetxattr=6 if ARM else 189, removexattr=14 if ARM else 197,
    setxattrat=463, inotify_init1=26 if ARM else 294, fanotify_init=262 if ARM else 300,
    io_uring_setup=425, ptrace=117 if ARM else 101, process_vm_readv=270 if ARM else 310,
    pidfd_getfd=438, kcmp=272 if ARM else 312, setpriority=140 if ARM else 141,
    ioprio_set=30 if ARM else 251, sched_setaffinity=122 if ARM else 203,
    sched_setscheduler=119 if ARM else 144, prlimit64=261 if ARM else 302,
    migrate_pages=238 if ARM else 256, semget=190 if ARM else 64, shmget=194 if ARM else 29,
    keyctl=219 if ARM else 250, unshare=97 if ARM else 272, memfd_create=279 if ARM else 319,
    perf_event_open=241 if ARM else 298, bpf=280 if ARM else 321, userfaultfd=282 if ARM else 323,
    clone3=435,
)
"""


@pytest.fixture(params=["own user", "shared user"])
def read(request: pytest.FixtureRequest, backend: SandboxBackend, place: Path) -> tuple[Path, ...]:
    """Let the program run as its own user, or as the user of this process."""
    if request.param == "own user":
        if detect_users(backend).uids is None:
            pytest.skip(detect_users(backend).why)
        return ()
    # Only this user can enter it, so a program that reads it cannot be another user.
    (place / "private").mkdir(mode=0o700)
    return (place / "private",)


@pytest.fixture
def pepper(place: Path) -> Path:
    """A file of the server, in a folder that every user may enter."""
    pepper = place / "pepper"
    pepper.write_text("secret")
    pepper.chmod(0o600)
    os.utime(pepper, (1_000, 1_000))
    return pepper


def test_metadata_of_other_files_cannot_be_changed(
    attempt: Attempt, backend: SandboxBackend, read: tuple[Path, ...], pepper: Path, place: Path
) -> None:
    before = pepper.stat()
    source = (
        f"{NUMBERS}{PRELUDE}\nHERE = -100\npath = sys.stdin.read().encode()\n"
        "folder = os.path.dirname(path)\n"
        "for path in (path, folder):\n"
        "    call('chmod', path, 0o777); call('fchmodat', HERE, path, 0o777)\n"
        "    call('fchmodat2', HERE, path, 0o777, 0)\n"
        "    call('lchown', path, 65534, 65534); call('fchownat', HERE, path, 65534, 65534, 0)\n"
        "    call('utime', path, None); call('utimes', path, None)\n"
        "    call('futimesat', HERE, path, None); call('utimensat', HERE, path, None, 0)\n"
        "    value = b'user.attacked'\n"
        "    for name in ('setxattr', 'lsetxattr'):\n"
        "        call(name, path, value, b'x', 1, 0)\n"
        "try:\n"
        "    handle = os.open(path, os.O_PATH)\n"
        "    os.chmod(f'/proc/self/fd/{handle}', 0o777)\n"
        "except OSError:\n"
        "    pass\n"
    )
    ended = attempt(source, backend, read=read, stdin=str(pepper))
    assert ended.returncode == 0, ended.stderr
    after = pepper.stat()
    assert stat.filemode(after.st_mode) == stat.filemode(before.st_mode)
    assert (after.st_uid, after.st_gid, after.st_mtime) == (before.st_uid, before.st_gid, 1_000)
    assert os.listxattr(pepper) == os.listxattr(place) == []
    assert stat.S_IMODE(place.stat().st_mode) == 0o755


def test_files_that_may_be_read_cannot_be_changed(
    attempt: Attempt, backend: SandboxBackend, read: tuple[Path, ...], place: Path
) -> None:
    given = place / "given.txt"
    given.write_text("as it was")
    given.chmod(0o644)
    source = """
import os, sys
path = sys.stdin.read()
for change in (lambda: os.chmod(path, 0), lambda: os.fchmod(os.open(path, os.O_RDONLY), 0),
               lambda: os.utime(os.open(path, os.O_RDONLY)), lambda: os.truncate(path, 0),
               lambda: os.setxattr(os.open(path, os.O_RDONLY), 'user.x', b'x')):
    try:
        change()
    except OSError:
        pass
"""
    before = given.stat()
    attempt(source, backend, read=(given, *read), stdin=str(given))
    after = given.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert os.listxattr(given) == []
    assert backend is SandboxBackend.RLIMITS or given.read_text() == "as it was"


def test_files_cannot_be_watched(
    attempt: Attempt, backend: SandboxBackend, read: tuple[Path, ...]
) -> None:
    source = f"{NUMBERS}{PRELUDE}\ncall('inotify_init1', 0); call('fanotify_init', 0, 0)"
    assert attempt(source, backend, read=read).stdout == ""


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the server's user."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_other_processes_cannot_be_changed_or_inspected(
    attempt: Attempt,
    backend: SandboxBackend,
    read: tuple[Path, ...],
    victim: subprocess.Popen[bytes],
) -> None:
    source = (
        f"{NUMBERS}{PRELUDE}\npid = int(sys.stdin.read())\n"
        "three = (ctypes.c_ulong * 2)(3, 3)\n"
        "call('prlimit64', pid, 7, three, None)\n"
        "call('prlimit64', pid, 7, None, three)\n"
        "call('setpriority', 0, pid, 19); call('setpriority', 2, 0, 19)\n"
        "call('ioprio_set', 1, pid, 3 << 13); call('ioprio_set', 3, 0, 3 << 13)\n"
        "call('sched_setaffinity', pid, 8, ctypes.byref(ctypes.c_ulong(1)))\n"
        "call('sched_setscheduler', pid, 5, ctypes.byref(ctypes.c_int(0)))\n"
        "call('ptrace', 16, pid, 0, 0); call('kcmp', pid, pid, 0, 0, 0)\n"
        "piece = (ctypes.c_size_t * 2)(0, 1)\n"
        "call('process_vm_readv', pid, piece, 0, piece, 0, 0)\n"
        "call('migrate_pages', pid, 0, None, None)\n"
    )
    limits = resource.prlimit(victim.pid, resource.RLIMIT_NOFILE)
    affinity = os.sched_getaffinity(victim.pid)
    ended = attempt(source, backend, read=read, stdin=str(victim.pid))
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    assert resource.prlimit(victim.pid, resource.RLIMIT_NOFILE) == limits
    assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.sched_getaffinity(victim.pid) == affinity


def test_other_processes_cannot_be_killed(
    attempt: Attempt,
    backend: SandboxBackend,
    read: tuple[Path, ...],
    victim: subprocess.Popen[bytes],
) -> None:
    if backend is SandboxBackend.RLIMITS and os.geteuid() != 0:
        pytest.skip("limits alone leave signals among the processes of one user")
    source = """
import os, signal, sys
pid = int(sys.stdin.read())
for send in (lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGKILL),
             lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)):
    try:
        send()
        print('SENT')
    except OSError:
        pass
"""
    assert attempt(source, backend, read=read, stdin=str(victim.pid)).stdout == ""
    assert victim.poll() is None


def test_ways_around_the_filter_are_denied(
    attempt: Attempt, backend: SandboxBackend, read: tuple[Path, ...]
) -> None:
    source = (
        f"{NUMBERS}{PRELUDE}\nspace = ctypes.create_string_buffer(256)\n"
        "call('io_uring_setup', 1, space); call('unshare', 0x10000000); call('clone3', space, 88)\n"
        "call('memfd_create', b'x', 0); call('semget', 7, 1, 0o1600)\n"
        "call('shmget', 7, 1, 0o1600)\n"
        "call('keyctl', 0, -3, 1); call('userfaultfd', 1)\n"
        "call('bpf', 0, space, 120); call('perf_event_open', space, 0, -1, -1, 0)\n"
        "call('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)\n"
    )
    ended = attempt(source, backend, read=read)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_a_program_may_limit_itself(
    attempt: Attempt, backend: SandboxBackend, read: tuple[Path, ...]
) -> None:
    source = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.nice(1)
os.sched_setaffinity(0, os.sched_getaffinity(0))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    assert attempt(source, backend, read=read).stdout == "(64, 64)\n"


def test_each_program_has_its_own_user(
    attempt: Attempt, backend: SandboxBackend, folder: Path
) -> None:
    uids = detect_users(backend).uids
    if uids is None:
        pytest.skip(detect_users(backend).why)
    open_file = "import os; open('mine', 'w'); os.chmod('mine', 0o640); os.utime('mine', (5, 5))"
    assert attempt(open_file, backend).returncode == 0
    found = (folder / "mine").stat()
    assert uids.first <= found.st_uid <= uids.last
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o640, 5)
    assert folder.stat().st_uid == found.st_uid
