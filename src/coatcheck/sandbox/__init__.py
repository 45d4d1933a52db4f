"""Running a program that is not trusted, so that it reaches only what it was given.

    confined = confine(argv, reach=Reach(read=(icons,), write=(folder,)),
    limits=SandboxLimits(seconds=10)) subprocess.run(confined.argv, **confined.options,
    input=source, capture_output=True)

`confine` starts nothing: it returns what `subprocess` or `asyncio` needs to. What they start is a
small process of ours, the *supervisor* (`sandbox/supervisor.py`), which starts the program in one
of three strengths, the best that this machine has (`sandbox/detect.py`):

1. **landlock**: Landlock and seccomp, by `sandlock` (the extra `sandbox`; Linux 6.7 or newer).
   Files, sockets, signals, processes and memory are all held, without root and without namespaces.
2. **bubblewrap**: namespaces of its own with nothing in them but what is bound. Processes and
   memory are counted by the supervisor, twenty times a second.
3. **rlimits**: limits only. It bounds what a mistake can use up. It is no wall: the program reads
   what this user reads and calls whom it likes. `sandbox_in_force()` says so, and logs it.

In every strength the program has a clean environment, no capabilities, and the runtime of the
system to read (`runtime.py`: `/usr`, `/lib`, ... but neither `/etc` as a whole nor any home).
`/tmp` is not its own: `TMPDIR` and `HOME` are the folder that it works in. A seccomp filter denies
it what Landlock does not mediate (`seccomp.py`): it cannot change other files' metadata, watch
files, or change other processes. The disk that its folders use is measured (`disk_usage.py`).

If the server runs as root, each program has a uid of its own (`identity.py`), to which the folders
that it may write to are given for good; `users_in_force()` tells. Not so if something that it may
reach is closed to other users: then it runs under the server's uid, without capabilities.

Who ends what: SIGTERM to the supervisor is passed on to all of the program's processes, and after
`GRACE_S` whatever is left is killed, also what has moved to a session of its own. The same happens
when `seconds` are over, when the program has ended and left others behind, and when the thread that
has started the supervisor is gone (so start it from one that waits for it). The supervisor dies
with SIGKILL too, and takes the program with it, but nobody then looks for what it had left behind:
send SIGTERM first.

Exit codes are the program's own; 128+n when signal n ended it (137: also by a limit), 124 when time
ran out, 126 and 127 when it could not be started, 125 when the sandbox could not be made; in that
case nothing of the program has run.
"""

from coatcheck.sandbox.backends import SandboxBackend
from coatcheck.sandbox.command import ConfinedCommand
from coatcheck.sandbox.confine import confine
from coatcheck.sandbox.detect import DetectedSandbox, sandbox_in_force, users_in_force
from coatcheck.sandbox.exposure import refuse_exposed_files
from coatcheck.sandbox.reach import SandboxAccess, SandboxLimits

__all__ = [
    "ConfinedCommand",
    "DetectedSandbox",
    "SandboxAccess",
    "SandboxBackend",
    "SandboxLimits",
    "confine",
    "refuse_exposed_files",
    "sandbox_in_force",
    "users_in_force",
]
