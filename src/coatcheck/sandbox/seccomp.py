"""The system calls that a confined program is denied, compiled to a seccomp filter.

Landlock decides which files a program opens and which sockets it connects. It does not decide who
changes a file's mode, owner, times or extended attributes, who watches a file, or who changes the
limits and the priority of another process of the same user. This filter does, with every backend.

- **Other processes**: calls that inspect or change a process by its id are denied. Limits and
  priorities may be set for the caller only (pid 0).
- **Metadata of files**: without a uid of its own (`identity.py`), a program owns whatever the
  server owns, so `chmod`, `chown` and `utime` change nothing. They report success, as on a FAT
  file system mounted with `quiet`: with an error, git, tar, `cp -p` and `shutil.copy` would fail.
  Extended attributes are reported as unsupported, which the same programs accept. A program with a
  uid of its own may use these calls: the kernel's ownership checks confine them.
- **Watching files**: inotify and fanotify are denied.
- **Ways around a filter**: io_uring, namespaces, other system call tables.

A filter is inherited by every process that is started later, and cannot be taken off.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

# Each system call: its number on x86-64 and on arm64, None where it does not exist.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone": (56, 220),
    "clone3": (435, 435),
    "prctl": (157, 167),
    "ioctl": (16, 29),
}

_IGNORED = (
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
)
_XATTRS = (
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
    "file_setattr",
)
_DENIED = (
    "inotify_init",
    "inotify_init1",
    "inotify_add_watch",
    "fanotify_init",
    "fanotify_mark",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "pidfd_getfd",
    "kcmp",
    # Memory and messages that outlive the program, or that no limit counts.
    "memfd_create",
    "memfd_secret",
    "mq_open",
    "msgget",
    "semget",
    "shmget",
    "add_key",
    "request_key",
    "keyctl",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "unshare",
    "setns",
)
# Programs fall back to other calls when these do not exist.
_ABSENT = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")

# The argument that names a process; 0 is the caller.
_PROCESS_ARGUMENT = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "move_pages": 0,
    "migrate_pages": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
# The first argument that makes the second one name a process, not a group or a user.
_WHICH = {"setpriority": 0, "ioprio_set": 1}

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_CLONE_NAMESPACES = 0x7E020000
_PR_SET_DUMPABLE = 4  # the supervisor reads /proc/PID/fd to count deleted files
_IOCTLS = (
    0x40086602,  # FS_IOC_SETFLAGS
    0x40046602,  # FS_IOC32_SETFLAGS
    0x401C5820,  # FS_IOC_FSSETXATTR
    0x40087602,  # FS_IOC_SETVERSION
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
    0x40806685,  # FS_IOC_ENABLE_VERITY
    0x5412,  # TIOCSTI
    0x541C,  # TIOCLINUX
)

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_X32_BIT = 0x40000000

# Classic BPF, as linux/filter.h and linux/seccomp.h name it.
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16


class _Instruction(NamedTuple):
    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


_Code = list[_Instruction]


def deny_filter(*, owns_files: bool, without: Collection[str] = ()) -> bytes | None:
    """Return the filter as an array of `struct sock_filter`; None on an unsupported processor.

    `owns_files`: the program has a uid of its own, or sees nothing but its own files writable, and
    may change their metadata. `without` names calls that are left to another filter.
    """
    known = _ARCHITECTURES.get(platform.machine())
    if known is None:
        return None
    architecture, column = known
    code = _preamble(architecture)
    for name, body in _rules(owns_files):
        number = _NUMBERS[name][column]
        if number is not None and name not in without:
            code.append(_Instruction(_JUMP_EQUAL, number, 0, len(body)))
            code += body
    code.append(_Instruction(_RETURN, _ALLOW))
    return b"".join(
        struct.pack("=HBBI", each.code, each.if_true, each.if_false, each.value) for each in code
    )


def _preamble(architecture: int) -> _Code:
    """Refuse every call of another table, such as that of 32-bit programs."""
    return [
        _Instruction(_LOAD, _AT_ARCHITECTURE),
        _Instruction(_JUMP_EQUAL, architecture, 1, 0),
        _fail(errno.ENOSYS),
        _Instruction(_LOAD, _AT_NUMBER),
        _Instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1),
        _fail(errno.ENOSYS),
    ]


def _rules(owns_files: bool) -> Iterator[tuple[str, _Code]]:
    """Yield each call with the code that ends in an answer for it."""
    if not owns_files:
        for name in _IGNORED:
            yield name, [_fail(0)]
        for name in _XATTRS:
            yield name, [_fail(errno.EOPNOTSUPP)]
    for name in _DENIED:
        yield name, [_fail(errno.EPERM)]
    for name in _ABSENT:
        yield name, [_fail(errno.ENOSYS)]
    for name, argument in _PROCESS_ARGUMENT.items():
        yield name, [*_only_caller(name, argument), _Instruction(_RETURN, _ALLOW)]
    yield "clone", [_load(0), *_fail_if(_JUMP_ANY_BIT, _CLONE_NAMESPACES, errno.EPERM), _allow()]
    yield "prctl", [_load(0), *_fail_if(_JUMP_EQUAL, _PR_SET_DUMPABLE, 0), _allow()]
    requests = [each for one in _IOCTLS for each in _fail_if(_JUMP_EQUAL, one, errno.EPERM)]
    yield "ioctl", [_load(1), *requests, _allow()]


def _only_caller(name: str, argument: int) -> _Code:
    code: _Code = []
    if name in _WHICH:
        code += [_load(0), _Instruction(_JUMP_EQUAL, _WHICH[name], 1, 0), _fail(errno.EPERM)]
    return [*code, _load(argument), _Instruction(_JUMP_EQUAL, 0, 1, 0), _fail(errno.EPERM)]


def _load(argument: int) -> _Instruction:
    # The lower half: all that the kernel reads of an int. Both processors are little-endian.
    return _Instruction(_LOAD, _AT_ARGUMENTS + 8 * argument)


def _fail_if(jump: int, value: int, number: int) -> _Code:
    return [_Instruction(jump, value, 0, 1), _fail(number)]


def _fail(number: int) -> _Instruction:
    return _Instruction(_RETURN, _ERRNO | number)


def _allow() -> _Instruction:
    return _Instruction(_RETURN, _ALLOW)
