"""One Chromium process under the sandbox's supervisor, from start to end.

A thread starts the supervisor and waits for it. The kernel signals the supervisor when that thread
is gone, which happens when our process dies; the supervisor then ends the browser and deletes its
profile. If we end the browser ourselves, the thread deletes the profile.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from coatcheck.sandbox import (
    ConfinedCommand,
    SandboxAccess,
    SandboxLimits,
    confine,
    detect_sandbox,
)
from coatcheck.surfaces.render.drawing.chromium.pipe import Pipe

# Writable memory of one browser process (RLIMIT_DATA). An empty page reserves 0.7 GB, most of it
# never touched.
_DATA_BYTES = 2 * 1024 * 1024 * 1024
# The JavaScript heap: Mermaid with a diagram of thousands of nodes needs a tenth of it.
_HEAP_MB = 768
# The sandbox counts reserved memory, and Chromium reserves terabytes that it never touches. The two
# limits above are the effective ones.
_RESERVED_BYTES = 1 << 50
# The supervisor ends the browser after this time; `engine.py` replaces it long before.
MAX_LIFETIME_S = 7200.0
_LIMITS = SandboxLimits(
    seconds=MAX_LIFETIME_S,
    memory_bytes=_RESERVED_BYTES,
    processes=32,
    file_bytes=64 * 1024 * 1024,
    disk_bytes=1024 * 1024 * 1024,  # shared memory between its processes is in files
)

# The protocol uses descriptors 3 and 4; the supervisor passes on 0 and 1.
_START = 'ulimit -d "$1" && shift && exec "$@" 3<&0 4>&1 </dev/null >/dev/null'

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-dev-shm-usage",  # shared memory goes to the profile, the only writable folder
    "--disable-gpu",
    "--in-process-gpu",
    "--no-zygote",
    "--no-first-run",
    "--no-startup-window",
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-logging",
    "--log-level=3",
    "--hide-scrollbars",
    "--window-size=1216,800",  # a gantt diagram is as wide as its page: 1,200
    "--font-render-hinting=none",  # the width of a label does not depend on the scale
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    f"--js-flags=--max-old-space-size={_HEAP_MB}",
    "--disable-features=SpareRendererForSitePerProcess,InitialWebUI,Translate,MediaRouter",
)


class Browser:
    """A started browser; it may not be ready yet."""

    def __init__(self, program: str) -> None:
        self.started = time.monotonic()
        # Short: the browser binds a socket in it, and a socket path has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="c-"))
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_supervise`
        started: SimpleQueue[subprocess.Popen[bytes] | Exception] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._supervise, args=(program, started), name="coatcheck-chromium", daemon=True
        )
        self._thread.start()
        process = started.get()
        if isinstance(process, Exception):
            raise process
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.pipe = Pipe(process.stdin, process.stdout)

    @property
    def age_s(self) -> float:
        """The time since it was started."""
        return time.monotonic() - self.started

    def resident_bytes(self) -> int:
        """Return the private memory of all its processes."""
        return sum(map(_resident, _descendants(self.process.pid)))

    def end(self) -> None:
        """Terminate the browser; `wait` returns when it has ended."""
        self.pipe.close()
        self.process.terminate()  # the supervisor, which ends all of them

    def wait(self) -> str:
        """Wait until the browser has ended; return its error output."""
        self._thread.join()
        return self.error_output

    def _supervise(
        self, program: str, started: SimpleQueue[subprocess.Popen[bytes] | Exception]
    ) -> None:
        self.error_output = ""
        try:
            confined = _confined(program, self.folder)
            with self._stderr as stderr:
                process = subprocess.Popen(  # noqa: S603
                    confined.argv,
                    **confined.options,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                )
                started.put(process)
                if process.wait() < 0:
                    _kill_strays(self.folder)
                stderr.seek(0)
                self.error_output = stderr.read(4096).decode(errors="replace").strip()
        except Exception as error:  # noqa: BLE001 - raised in the constructor
            started.put(error)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _confined(program: str, folder: Path) -> ConfinedCommand:
    command = [program, *_FLAGS, f"--user-data-dir={folder}"]
    return confine(
        ["/bin/sh", "-c", _START, "sh", str(_DATA_BYTES // 1024), *command],
        # Its resources are next to the program.
        access=SandboxAccess(read=(Path(program).resolve().parent,), write=(folder,)),
        limits=_LIMITS,
        folder=folder,
        temporary=True,
        backend=detect_sandbox().backend,
    )


def _kill_strays(folder: Path) -> None:
    """Kill browser processes that a killed supervisor left behind.

    Some of a browser's processes outlive it. Their command line names the profile, which no other
    process uses.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    yield from _descendants(int(child))


def _resident(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        # Without file mappings, which they share.
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
