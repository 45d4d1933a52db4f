"""The process between Coatcheck and a confined program: it starts, watches and ends the program.

It runs as a file, by `python -I -S sandbox/supervisor.py PLAN COMMAND...`, with a plan in JSON that
`command.py` writes. It imports nothing of Coatcheck, so that it starts in milliseconds.

Guarantees: when it ends, no process of the program is left. It ends within the plan's seconds and
grace, whatever the program does, and also if its own parent dies: then it removes the program's
folder as well, if that is temporary. It adopts every process whose parent has died
(PR_SET_CHILD_SUBREAPER), so no process escapes by a second fork or a session of its own.

The supervisor stays the server's user and is not confined. Its one child switches to the program's
user (`own_user.py`), installs the seccomp filter (`seccomp.py`) and the limits, and then becomes
the program, or bubblewrap, or sandlock's supervisor with the program as its child.

With `sandlock` the kernel enforces the limits; otherwise the supervisor counts the processes and
their memory every `CHECK_S`. It measures the program's disk usage with every backend
(`disk_usage.py`). If a limit is exceeded, it kills all processes.
"""

from __future__ import annotations

import binascii
import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from coatcheck.sandbox.disk_usage import DiskLimitExceeded, DiskUsage
    from coatcheck.sandbox.own_user import OwnUser, claim_user
else:  # beside this file, without the package and its imports
    sys.path.insert(0, str(Path(__file__).parent))
    from disk_usage import DiskLimitExceeded, DiskUsage
    from own_user import OwnUser, claim_user

    del sys.path[0]

CHECK_S = 0.05
# The disk is measured less often if that takes long, but at least this often.
DISK_CHECK_S = 0.1
LONGEST_DISK_CHECK_S = 1.0

TIMED_OUT = 124
NO_SANDBOX = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127

NOBODY = 65534

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PAGE = resource.getpagesize()

Plan = dict[str, Any]


def main() -> int:
    """Run the command of the plan; return the exit code."""
    plan: Plan = json.loads(sys.argv[1])
    command = sys.argv[2:]
    parent = os.getppid()
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    wake = _Wake()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, wake.on_signal)
    _control(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    code, user = _run(plan, command, wake)
    if plan["temporary"] and os.getppid() != parent:
        with contextlib.suppress(Exception):
            shutil.rmtree(plan["folder"], ignore_errors=True)
    if user is not None and user.is_exclusive:
        user.become()
        user.kill_others()
    return code


def _run(plan: Plan, command: list[str], wake: _Wake) -> tuple[int, OwnUser | None]:
    """Run the command; return its exit code and the user that it ran as."""
    if (error_code := _check_program(plan["program"])) is not None:
        return error_code, None
    user = None
    try:
        user = _user(plan)
        pid = _start(plan, command, user, wake)
    except Exception as error:  # noqa: BLE001 - the program has not run
        return _report_error(NO_SANDBOX, f"the sandbox could not be created: {error}"), user
    return _Watcher(plan, pid, user, wake).watch(), user


def _user(plan: Plan) -> OwnUser | None:
    """Return the user to run the program as; None: the supervisor's own."""
    user = None
    if plan["uids"] is not None:
        user = claim_user(*plan["uids"])
    elif plan["backend"] == "rlimits" and os.geteuid() == 0:
        user = OwnUser(NOBODY)
    if user is not None:
        user.take_ownership(plan["folders"])
    return user


class _Wake:
    """Wakes the watcher: on a signal to stop, or when the program has ended."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self.stop_signals = 0

    def on_signal(self, _number: int, _frame: object) -> None:
        self.stop_signals += 1
        self.now()

    def now(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b".")

    def wait(self, seconds: float) -> None:
        if select.select([self._read], [], [], max(seconds, 0))[0]:
            os.read(self._read, 512)


class _Watcher:
    """Watches one program until none of its processes is left."""

    def __init__(self, plan: Plan, pid: int, user: OwnUser | None, wake: _Wake) -> None:
        self._plan = plan
        self._pid = pid
        self._wake = wake
        self._counts = plan["backend"] != "landlock"
        self._disk = _DiskWatcher(plan, user, wake) if plan["folders"] else None
        self._deadline = time.monotonic() + plan["seconds"]
        self._kill_at: float | None = None
        self._code: int | None = None

    def watch(self) -> int:
        while (exit_code := _wait_for_child(self._pid)) is None:
            self._wake.wait(self._until_next_check())
            self._check()
        _kill_all()
        return exit_code if self._code is None else self._code

    def _until_next_check(self) -> float:
        now = time.monotonic()
        seconds = (self._kill_at or self._deadline) - now
        if self._disk is not None:
            seconds = min(seconds, self._disk.due - now)
        return min(seconds, CHECK_S) if self._counts else seconds

    def _check(self) -> None:
        now = time.monotonic()
        if self._kill_at is None and now >= self._deadline:
            self._code = _report_error(TIMED_OUT, f"timed out after {self._plan['seconds']:g} s")
            self._terminate(now)
        elif self._kill_at is None and self._wake.stop_signals:
            self._terminate(now)
        elif self._kill_at is not None and (now >= self._kill_at or self._wake.stop_signals > 1):
            self._kill()
            self._kill_at = now + 1
        if (excess := self._excess(now)) is not None:
            self._code = _report_error(128 + signal.SIGKILL, f"killed: {excess}")
            self._kill()
            self._counts = False
            self._disk = None

    def _excess(self, now: float) -> str | None:
        if self._disk is not None and now >= self._disk.due:
            excess = self._disk.excess(_descendants())
            if excess is not None:
                return excess
        if not self._counts:
            return None
        processes = self._processes()
        memory = sum(map(_resident, processes))
        if len(processes) > self._plan["processes"]:
            return f"more than {self._plan['processes']} processes"
        if memory > self._plan["memory_bytes"]:
            return f"more than {self._plan['memory_bytes']} bytes of memory"
        return None

    def _processes(self) -> list[int]:
        """Return the program's processes, without wrappers whose end would end all at once:
        bubblewrap, outside and inside, or sandlock's supervisor.
        """
        wrappers: set[int] = set()
        if self._plan["backend"] != "rlimits":
            wrappers.add(self._pid)
        if self._plan["backend"] == "bubblewrap":
            wrappers.update(_children(self._pid))
        return [pid for pid in _descendants() if pid not in wrappers]

    def _terminate(self, now: float) -> None:
        self._kill_at = now + self._plan["grace"]
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _kill(self) -> None:
        # The program's group first: the kernel kills a whole group at once, however fast it forks.
        for group in (*_children(self._pid), self._pid):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class _DiskWatcher:
    """Measures the program's disk usage periodically."""

    def __init__(self, plan: Plan, user: OwnUser | None, wake: _Wake) -> None:
        self._usage = DiskUsage(
            plan["folders"], max_bytes=plan["disk_bytes"], max_files=plan["files"]
        )
        self._user = user
        self._wake = wake
        self._parent = os.getppid()
        self.due = time.monotonic() + DISK_CHECK_S

    def excess(self, pids: list[int]) -> str | None:
        started_at = time.monotonic()
        try:
            self._usage.check(pids, self._as_user())
        except DiskLimitExceeded as error:
            return str(error)
        now = time.monotonic()
        self.due = now + min(max(DISK_CHECK_S, 10 * (now - started_at)), LONGEST_DISK_CHECK_S)
        return None

    @contextlib.contextmanager
    def _as_user(self) -> Iterator[None]:
        # Root in a container may list a process's open files only as the user of the process.
        if self._user is None:
            yield
            return
        try:
            with self._user.impersonate():
                yield
        finally:
            _control(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != self._parent:
                self._wake.on_signal(signal.SIGTERM, None)


def _start(plan: Plan, command: list[str], user: OwnUser | None, wake: _Wake) -> int:
    signal.signal(signal.SIGCHLD, lambda *_: wake.now())
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(plan, command, user, supervisor)
        except Exception as error:  # noqa: BLE001 - the program has not run
            os._exit(_report_error(NO_SANDBOX, f"the sandbox could not be created: {error}"))
    return pid


def _wait_for_child(pid: int) -> int | None:
    """Return the exit code of the child once it has ended. Reaps adopted processes as well."""
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if one[0] == pid:
                code = os.waitstatus_to_exitcode(one[1])
                return code if code >= 0 else 128 - code
    return None


def _become(plan: Plan, command: list[str], user: OwnUser | None, supervisor: int) -> NoReturn:
    """Turn this process into the program, or into its wrapper."""
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    backend = plan["backend"]
    if backend == "landlock":
        _import_sandlock(plan)  # the program's user may not be able to read it
    _set_limits(plan)
    if backend != "bubblewrap":  # bubblewrap drops them itself, and needs them to create namespaces
        _drop_capabilities()
    if user is not None:
        user.become()
        if user.is_exclusive:
            user.kill_others()  # left by a supervisor that was killed
    # After the change of user, which resets it.
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(NO_SANDBOX)
    if backend == "landlock":
        # sandlock's supervisor inspects its child, which a change of user forbids.
        _control(_PR_SET_DUMPABLE, 1)
        _become_landlocked(plan, command)
    _set_limit(resource.RLIMIT_DATA, plan["memory_bytes"])
    if backend == "bubblewrap":
        _pass_filter(plan)
    else:
        _install_filter(plan)
    os.execve(command[0], command, os.environ)  # noqa: S606 - what it is for


def _import_sandlock(plan: Plan) -> None:
    sys.path.append(plan["sandlock"])
    import sandlock  # noqa: F401, PLC0415 - only where there is one


def _become_landlocked(plan: Plan, command: list[str]) -> NoReturn:
    """Run the command by sandlock, whose threads enforce the limits, and exit with its code."""
    from sandlock import ExitReason, Sandbox  # noqa: PLC0415 - only where there is one

    _install_filter(plan)
    process = Sandbox(
        fs_readable=plan["read"],
        fs_writable=plan["write"],
        cwd=plan["folder"],
        max_memory=plan["memory_bytes"],
        max_processes=plan["processes"],
        net_allow=["*:*"] if plan["network"] else [],
        extra_deny_syscalls=plan["denied"],
    ).popen(command)
    result = process.wait()
    if result.reason is ExitReason.EXITED:
        os._exit(result.exit_code)
    os._exit(128 + (result.signal if result.signal > 0 else signal.SIGKILL))


def _install_filter(plan: Plan) -> None:
    """Put this process, and all its descendants, under the plan's seccomp filter."""
    if not plan["filter"]:
        return
    code = binascii.a2b_base64(plan["filter"])
    kept = ctypes.create_string_buffer(code, len(code))
    program = _FilterProgram(len(code) // 8, ctypes.addressof(kept))
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel rejected the seccomp filter")


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _pass_filter(plan: Plan) -> None:
    """Pass the filter to bubblewrap on its descriptor."""
    if not plan["filter"]:
        return
    file = os.memfd_create("filter", 0)
    os.write(file, binascii.a2b_base64(plan["filter"]))
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, plan["filter_descriptor"])
    if file != plan["filter_descriptor"]:
        os.close(file)


def _set_limits(plan: Plan) -> None:
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, plan["file_bytes"])
    _set_limit(resource.RLIMIT_CPU, int(plan["seconds"]) + 1)


def _set_limit(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def _drop_capabilities() -> None:
    """Ensure that no program started from here has capabilities, not even as root."""
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    for capability in range(64):
        if not _control(_PR_CAPBSET_DROP, capability):
            return  # past the last one, or not root: then there are none


def _control(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def _check_program(program: str) -> int | None:
    if not Path(program).exists() or "/" not in program:
        return _report_error(NOT_FOUND, f"{program}: command not found")
    if not Path(program).is_file() or not os.access(program, os.X_OK):
        return _report_error(NOT_EXECUTABLE, f"{program}: not executable")
    return None


def _descendants() -> list[int]:
    """Return every process below this one; empty if the system does not tell."""
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        pid = pending.pop()
        children = _children(pid)
        found += children
        pending += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                children += map(int, (task / "children").read_text().split())
    return children


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _kill_all() -> None:
    """Kill all processes that the program has left behind."""
    while left := _descendants():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _report_error(code: int, message: str) -> int:
    sys.stderr.write(f"sandbox: {message}\n")
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
