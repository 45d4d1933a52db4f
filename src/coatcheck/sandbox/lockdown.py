"""Locking down the calling process permanently, by Landlock and seccomp.

`confine` (confine.py) starts a program below a supervisor. A process that runs one job after the
other cannot be started that way: it is a Python process of ours that talks to its worker over a
socket, and locks itself down before it imports a parser. Every program that it starts inherits the
restrictions.

After `lock_down`, these restrictions hold, in the order in which they are applied:

1. No capabilities, even for root, and none from a set-user-ID program (`no_new_privs`).
2. Landlock: files can be read and executed below `read`, written below `write`, and nowhere else.
   Other processes cannot be traced (their environment and memory cannot be read), and from ABI 6
   (Linux 6.12) on not be signalled. Moving mounts is denied with it.
3. seccomp: only Unix stream sockets can be created, and none can be connected. So there is no
   network and no local service to talk to, only socket pairs. Denied are calls that change files
   without opening them (chmod, utime, xattr), that change other processes (prlimit, priorities),
   that share memory by name (System V, POSIX queues), and that no parser needs (io_uring, bpf,
   namespaces).

Landlock and seccomp confine the calling thread and its descendants, so call this before the process
has a second thread. If the kernel lacks one of them, the other still holds; `detect_protections`
says which.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION = 0x20080522

# --- Landlock (linux/landlock.h); its calls have these numbers on every architecture.

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # the number of file rights of each ABI
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_NET_ABI, _SCOPE_ABI = 4, 6
_NET_ALL = 0b11  # bind and connect TCP
_SCOPE_ALL = 0b11  # abstract Unix sockets and signals

# --- seccomp, as in linux/seccomp.h and linux/bpf_common.h

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _AND = 0x20, 0x54
_EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_TYPE_MASK = 0xF  # of a socket's type, without its flags
_CLONE3 = 435  # its flags are in memory, where a filter cannot look; libraries fall back to `clone`
_NAMESPACES = 0x7E020000  # the flags of `clone` that create one

# Denied calls by architecture: (audit arch, {name: number}).
_COMMON = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
}
_X86_64 = {
    "chmod": 90,
    "fchmod": 91,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "utime": 132,
    "utimes": 235,
    "fchownat": 260,
    "futimesat": 261,
    "fchmodat": 268,
    "utimensat": 280,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "inotify_init": 253,
    "inotify_add_watch": 254,
    "inotify_init1": 294,
    "fanotify_init": 300,
    "setpriority": 141,
    "ioprio_set": 251,
    "ptrace": 101,
    "kcmp": 312,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "semtimedop": 220,
    "mq_open": 240,
    "mq_unlink": 241,
    "memfd_create": 319,
    "pivot_root": 155,
    "chroot": 161,
    "mount": 165,
    "umount2": 166,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "bpf": 321,
    "userfaultfd": 323,
}
_AARCH64 = {
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "removexattr": 14,
    "lremovexattr": 15,
    "fremovexattr": 16,
    "inotify_init1": 26,
    "inotify_add_watch": 27,
    "ioprio_set": 30,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "fchmod": 52,
    "fchmodat": 53,
    "fchownat": 54,
    "fchown": 55,
    "utimensat": 88,
    "unshare": 97,
    "ptrace": 117,
    "setpriority": 140,
    "mq_open": 180,
    "mq_unlink": 181,
    "msgget": 186,
    "msgctl": 187,
    "msgrcv": 188,
    "msgsnd": 189,
    "semget": 190,
    "semctl": 191,
    "semtimedop": 192,
    "semop": 193,
    "shmget": 194,
    "shmctl": 195,
    "shmat": 196,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "setns": 268,
    "kcmp": 272,
    "memfd_create": 279,
    "bpf": 280,
    "userfaultfd": 282,
}


@dataclass(frozen=True)
class _Machine:
    audit: int
    denied: dict[str, int]
    socket: int
    socketpair: int
    connect: int
    clone: int
    # Calls whose first argument is a process: allowed for the caller only.
    on_process: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, _X86_64, 41, 53, 42, 56, (142, 144, 203, 302, 314)),
    "aarch64": _Machine(0xC00000B7, _AARCH64, 198, 199, 203, 220, (118, 119, 122, 261, 274)),
}


@dataclass(frozen=True)
class Protections:
    """The protections that a process of this machine can apply to itself."""

    files: bool  # Landlock
    network: bool  # Landlock from ABI 4 on; `calls` restricts it, too
    signals: bool  # Landlock from ABI 6 on
    calls: bool  # seccomp, which also restricts the network

    @property
    def complete(self) -> bool:
        """Whether all of them are available."""
        return self.files and self.signals and self.calls

    @property
    def missing(self) -> str:
        """What a process could still do, for the operator; empty if nothing is missing."""
        found = []
        if not self.files:
            found.append(
                "read and write this user's files (no Landlock: needs Linux 5.13 or newer)"
            )
        if not self.calls:
            found.append("use the network (no seccomp on this architecture)")
        if self.files and not self.signals:
            found.append("signal other processes of this user (Linux 6.12 or newer prevents that)")
        return "; ".join(found)


@cache
def detect_protections() -> Protections:
    """Return the protections that this machine supports."""
    abi = _landlock_abi()
    return Protections(abi >= 1, abi >= _NET_ABI, abi >= _SCOPE_ABI, _machine() is not None)


def lock_down(
    read: Iterable[Path], write: Iterable[Path], listed: Iterable[Path] = ()
) -> Protections:
    """Confine the calling process, which must have one thread; return the protections that hold.

    Below folders that are `listed`, only the names of files can be read.
    """
    protections = detect_protections()
    if sys.platform != "linux":
        return protections
    _drop_capabilities()
    if protections.files:
        _restrict_files(read, write, listed)
    if protections.calls:
        _restrict_calls()
    return protections


def _drop_capabilities() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    libc = _libc()
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one, or not allowed: then there are none to drop
    none = ctypes.create_string_buffer(24)
    _check(libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), none), "capset")


def _restrict_files(read: Iterable[Path], write: Iterable[Path], listed: Iterable[Path]) -> None:
    libc, abi = _libc(), _landlock_abi()
    handled = (1 << _RIGHTS_OF_ABI.get(abi, 16)) - 1
    attributes = struct.pack("=Q", handled)
    if abi >= _NET_ABI:
        attributes += struct.pack("=Q", _NET_ALL)
    if abi >= _SCOPE_ABI:
        attributes += struct.pack("=Q", _SCOPE_ALL)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    _check(min(ruleset, 0), "landlock_create_ruleset")
    try:
        for path in read:
            _allow(ruleset, path, _READ & handled)
        for path in listed:
            _allow(ruleset, path, _READ_DIR)
        for path in write:
            _allow(ruleset, path, handled & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it does not exist: there is nothing to allow
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _check(_libc().syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), "landlock_add_rule")
    finally:
        os.close(descriptor)


def _restrict_calls() -> None:
    machine = _machine()
    assert machine is not None
    program = _filter(machine)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    result = _libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)
    _check(result, "seccomp")


def _filter(machine: _Machine) -> bytes:
    """Return the BPF program: one comparison for each denied call; all others are allowed."""
    refuse, refuse_socket = _ERRNO | errno.EPERM, _ERRNO | errno.EACCES
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, refuse),
        (_EQUAL, 0, 1, machine.connect),
        (_RETURN, 0, 0, refuse_socket),
        # A datagram socket can send to any address, even if connected, so only these two types are
        # allowed: without `connect` they reach only their own pair.
        (_EQUAL, 1, 0, machine.socket),
        (_EQUAL, 0, 8, machine.socketpair),
        (_LOAD, 0, 0, _ARGUMENTS),
        (_EQUAL, 0, 5, socket.AF_UNIX),
        (_LOAD, 0, 0, _ARGUMENTS + 8),
        (_AND, 0, 0, _TYPE_MASK),
        (_EQUAL, 1, 0, socket.SOCK_STREAM),
        (_EQUAL, 0, 1, socket.SOCK_SEQPACKET),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, refuse_socket),
    ]
    lines += [
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_EQUAL, 0, 4, machine.clone),
        (_LOAD, 0, 0, _ARGUMENTS),
        (_ANY_OF, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for number in machine.on_process:
        lines += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _ARGUMENTS),
            (_EQUAL, 1, 0, 0),
            (_RETURN, 0, 0, refuse),
            (_RETURN, 0, 0, _ALLOW),
        ]
    for number in sorted({**_COMMON, **machine.denied}.values()):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _machine() -> _Machine | None:
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    return _MACHINES.get(platform.machine())


@cache
def _landlock_abi() -> int:
    """Return the Landlock version of this kernel; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    _check(_libc().prctl(option, value, 0, 0, 0), "prctl")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
