"""The process between Coatcheck and a confined program: it starts it, guards it and ends it.

It is run as a file of its own, by `python -I -S keeper.py PLAN COMMAND...`, with a plan in JSON
that `confined.py` writes. It imports nothing of Coatcheck, so that it starts in milliseconds.

What it promises: when it ends, no process of the program is left; it ends within the plan's seconds
and grace, whatever the program does, and also when whoever has started it dies: then it removes the
program's folder as well, if that is a temporary one. It adopts every process whose parent has died
(PR_SET_CHILD_SUBREAPER), so nobody escapes by a second fork or a session of their own. With
`sandlock` the kernel holds the limits; otherwise the keeper counts the processes and their memory
itself every `LOOK_S`, and kills all of them when there is too much.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

LOOK_S = 0.05

TIMED_OUT = 124
NO_SANDBOX = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127

NOBODY = 65534

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
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
    code = _run(plan, command, wake)
    if plan["temporary"] and os.getppid() != parent:
        with contextlib.suppress(Exception):
            shutil.rmtree(plan["folder"], ignore_errors=True)
    return code


def _run(plan: Plan, command: list[str], wake: _Wake) -> int:
    if (refusal := _cannot_start(plan["program"])) is not None:
        return refusal
    try:
        start = _landlocked if plan["strength"] == "landlock" else _limited
        pid, ending = start(plan, command, wake)
    except Exception as error:  # noqa: BLE001 — whatever sandlock raises, the program has not run
        return _say(NO_SANDBOX, f"the sandbox could not be made: {error}")
    return _Guard(plan, pid, wake, ending).watch()


class _Wake:
    """Wakes the guard: somebody wants an end, or the program has ended."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self.asked = 0

    def on_signal(self, _number: int, _frame: object) -> None:
        self.asked += 1
        self.now()

    def now(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b".")

    def wait(self, seconds: float) -> None:
        if select.select([self._read], [], [], max(seconds, 0))[0]:
            os.read(self._read, 512)


class _Guard:
    """Watches one program until nothing of it is left."""

    def __init__(self, plan: Plan, pid: int, wake: _Wake, ending: Callable[[], int | None]) -> None:
        self._plan = plan
        self._pid = pid
        self._wake = wake
        self._ending = ending
        self._counts = plan["strength"] != "landlock"
        self._deadline = time.monotonic() + plan["seconds"]
        self._kill_at: float | None = None
        self._code: int | None = None

    def watch(self) -> int:
        while (ended := self._ending()) is None:
            self._wake.wait(self._until_next_look())
            self._look()
        _end_everyone()
        return ended if self._code is None else self._code

    def _until_next_look(self) -> float:
        seconds = (self._kill_at or self._deadline) - time.monotonic()
        return min(seconds, LOOK_S) if self._counts else seconds

    def _look(self) -> None:
        now = time.monotonic()
        if self._kill_at is None and now >= self._deadline:
            self._code = _say(TIMED_OUT, f"ended after {self._plan['seconds']:g} s")
            self._ask_to_end(now)
        elif self._kill_at is None and self._wake.asked:
            self._ask_to_end(now)
        elif self._kill_at is not None and (now >= self._kill_at or self._wake.asked > 1):
            self._kill()
            self._kill_at = now + 1
        if self._counts and (excess := self._excess()) is not None:
            self._code = _say(128 + signal.SIGKILL, excess)
            self._kill()
            self._counts = False

    def _excess(self) -> str | None:
        everyone = self._processes()
        memory = sum(map(_resident, everyone))
        if len(everyone) > self._plan["processes"]:
            return f"killed: more than {self._plan['processes']} processes"
        if memory > self._plan["memory_bytes"]:
            return f"killed: more than {self._plan['memory_bytes']} bytes of memory"
        return None

    def _processes(self) -> list[int]:
        everyone = _descendants()
        if self._plan["strength"] != "bubblewrap":
            return everyone
        # Bubblewrap itself, outside and inside, would end all the others at once.
        wrappers = {self._pid, *_children(self._pid)}
        return [pid for pid in everyone if pid not in wrappers]

    def _ask_to_end(self, now: float) -> None:
        self._kill_at = now + self._plan["grace"]
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _kill(self) -> None:
        # The program's group first: the kernel ends all of a group at once, however fast it forks.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _landlocked(
    plan: Plan, command: list[str], wake: _Wake
) -> tuple[int, Callable[[], int | None]]:
    """Start the command by sandlock; its own threads hold the limits."""
    sys.path.append(plan["sandlock"])
    from sandlock import ExitReason, Sandbox  # noqa: PLC0415 — only where there is one

    _limit(plan)
    _drop_capabilities()
    process = Sandbox(
        fs_readable=plan["read"],
        fs_writable=plan["write"],
        cwd=plan["folder"],
        max_memory=plan["memory_bytes"],
        max_processes=plan["processes"],
        net_allow=["*:*"] if plan["network"] else [],
        extra_deny_syscalls=["memfd_create"],  # memory that would be counted for nobody
    ).popen(command)
    ended: list[int] = []

    def wait() -> None:
        result = process.wait()
        if result.reason is ExitReason.EXITED:
            ended.append(result.exit_code)
        else:
            ended.append(128 + (result.signal if result.signal > 0 else signal.SIGKILL))
        wake.now()

    threading.Thread(target=wait, daemon=True).start()
    return process.pid, lambda: ended[0] if ended else None


def _limited(plan: Plan, command: list[str], wake: _Wake) -> tuple[int, Callable[[], int | None]]:
    """Start the command, or bubblewrap with it, under rlimits."""
    signal.signal(signal.SIGCHLD, lambda *_: wake.now())
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(plan, command, keeper)

    def ending() -> int | None:
        # Strays that the keeper has adopted are reaped on the way.
        with contextlib.suppress(ChildProcessError):
            while (one := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if one[0] == pid:
                    code = os.waitstatus_to_exitcode(one[1])
                    return code if code >= 0 else 128 - code
        return None

    return pid, ending


def _become(plan: Plan, command: list[str], keeper: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        _limit(plan)
        _hold(resource.RLIMIT_DATA, plan["memory_bytes"])
        if plan["strength"] == "rlimits":
            _drop_capabilities()
            _give_up_root(plan["write"])
        # After the user has changed: the kernel then forgets it.
        _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(NO_SANDBOX)
        os.execve(command[0], command, os.environ)  # noqa: S606 — what it is for
    except OSError as error:
        os._exit(_say(NO_SANDBOX, f"the sandbox could not be made: {error}"))


def _limit(plan: Plan) -> None:
    _hold(resource.RLIMIT_CORE, 0)
    _hold(resource.RLIMIT_FSIZE, plan["file_bytes"])
    _hold(resource.RLIMIT_CPU, int(plan["seconds"]) + 1)


def _hold(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def _drop_capabilities() -> None:
    """See to it that no program started from here has capabilities, not even as root."""
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    for capability in range(64):
        if not _control(_PR_CAPBSET_DROP, capability):
            return  # past the last one, or not root: then there are none to be had


def _give_up_root(write: list[str]) -> None:
    """Become nobody, who owns nothing but the folders that the program may write to."""
    if os.geteuid() != 0:
        return
    for path in write:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _control(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def _cannot_start(program: str) -> int | None:
    if not Path(program).exists() or "/" not in program:
        return _say(NOT_FOUND, f"{program}: command not found")
    if not Path(program).is_file() or not os.access(program, os.X_OK):
        return _say(NOT_EXECUTABLE, f"{program}: not a program that may be run")
    return None


def _descendants() -> list[int]:
    """Return every process below this one; empty where the system does not tell."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        children = _children(pid)
        found += children
        waiting += children
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


def _end_everyone() -> None:
    """Kill whoever the program has left behind, until there is nobody."""
    while left := _descendants():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _say(code: int, message: str) -> int:
    sys.stderr.write(f"sandbox: {message}\n")
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads of sandlock's may still be at work
