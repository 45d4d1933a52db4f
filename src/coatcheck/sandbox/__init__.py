"""Running untrusted programs with restricted access.

    confined = confine(argv, access=SandboxAccess(read=(icons,), write=(folder,)),
                       limits=SandboxLimits(seconds=10))
    subprocess.run(confined.argv, **confined.options, input=source, capture_output=True)

`confine` starts nothing: it returns the arguments for `subprocess` or `asyncio`. They start a small
process of ours, the *supervisor* (`sandbox/supervisor.py`), which runs the program under one of
three backends, the strongest that this machine supports (`sandbox/detect.py`):

1. **landlock**: Landlock and seccomp, by `sandlock` (the extra `sandbox`; Linux 6.7 or newer).
   Files, sockets, signals, processes and memory are all restricted, without root and without
   namespaces.
2. **bubblewrap**: namespaces that contain only what is bound. The supervisor counts processes and
   memory twenty times a second.
3. **rlimits**: resource limits only. They bound the effects of a mistake, but are no sandbox: the
   program can read this user's files and use the network. `detect_sandbox()` says so, and logs it.

With every backend, the program has a clean environment, no capabilities, and read access to the
runtime of the system (`runtime.py`: `/usr`, `/lib`, ... but neither all of `/etc` nor any home).
`/tmp` is not available: `TMPDIR` and `HOME` are the program's working folder. A seccomp filter
denies what Landlock does not mediate (`seccomp.py`): the program cannot change other files'
metadata, watch files, or change other processes. The disk usage of its folders is measured
(`disk_usage.py`).

If the server runs as root, each program has its own uid (`identity.py`), which becomes the owner of
the folders that the program may write to; `detect_users()` tells. The exception is a program with
access to something that is closed to other users: it runs under the server's uid, without
capabilities.

How a program ends: the supervisor passes SIGTERM on to all of the program's processes, and kills
the rest after `GRACE_S`, even those in a session of their own. The same happens at the end of
`seconds`, when the program has ended and left processes behind, and when the thread that started
the supervisor is gone (so start it from a thread that waits for it). SIGKILL ends the supervisor
and the program, but then nobody cleans up the processes it left behind: send SIGTERM first.

Exit codes are the program's own; 128+n if signal n ended it (137: possibly by a limit), 124 on a
timeout, 126 and 127 if it could not be started, 125 if the sandbox could not be created; in that
case no part of the program has run.
"""

from coatcheck.sandbox.access import SandboxAccess, SandboxLimits
from coatcheck.sandbox.backends import SandboxBackend
from coatcheck.sandbox.command import ConfinedCommand
from coatcheck.sandbox.confine import confine
from coatcheck.sandbox.detect import DetectedSandbox, detect_sandbox, detect_users
from coatcheck.sandbox.exposure import reject_exposed_files

__all__ = [
    "ConfinedCommand",
    "DetectedSandbox",
    "SandboxAccess",
    "SandboxBackend",
    "SandboxLimits",
    "confine",
    "detect_sandbox",
    "detect_users",
    "reject_exposed_files",
]
