"""One Chromium, from its start to its end, below the sandbox's supervisor.

A thread starts the supervisor and waits for it, as long as it lives: the kernel tells the
supervisor when that thread is gone, which it is when our process is, and the supervisor then ends
the browser and removes its profile. Where we end it ourselves, the thread removes the profile.
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

# A process of the browser's may have this much writable memory (RLIMIT_DATA). A page with nothing
# in it has 0.7 GB of it, most of it never touched.
_DATA_BYTES = 2 * 1024 * 1024 * 1024
# What scripts may hold: Mermaid with a diagram of thousands of nodes needs a tenth of it.
_HEAP_MB = 768
# The sandbox counts what is reserved, and Chromium reserves terabytes that it never touches. So the
# two limits above are those that hold.
_RESERVED_BYTES = 1 << 50
# The supervisor ends it after this long; `engine.py` has let it go long before.
LONGEST_LIFE_S = 7200.0
_LIMITS = SandboxLimits(
    seconds=LONGEST_LIFE_S,
    memory_bytes=_RESERVED_BYTES,
    processes=32,
    file_bytes=64 * 1024 * 1024,
    disk_bytes=1024 * 1024 * 1024,  # shared memory between its processes is in files
)

# The protocol is spoken on descriptors 3 and 4; the supervisor hands on 0 and 1.
_START = 'ulimit -d "$1" && shift && exec "$@" 3<&0 4>&1 </dev/null >/dev/null'

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-dev-shm-usage",  # shared memory is made in the profile, the only place to write to
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
    "--font-render-hinting=none",  # labels are as wide as they are drawn at any size
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    f"--js-flags=--max-old-space-size={_HEAP_MB}",
    "--disable-features=SpareRendererForSitePerProcess,InitialWebUI,Translate,MediaRouter",
)


class Browser:
    """A browser that has been started; it may not be ready yet."""

    def __init__(self, program: str) -> None:
        self.started = time.monotonic()
        # Short: the browser binds a socket below it, whose path may have 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="c-"))
        self._last_words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_keep`
        begun: SimpleQueue[subprocess.Popen[bytes] | Exception] = SimpleQueue()
        self._payload_store = threading.Thread(
            target=self._keep, args=(program, begun), name="coatcheck-chromium", daemon=True
        )
        self._payload_store.start()
        process = begun.get()
        if isinstance(process, Exception):
            raise process
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.pipe = Pipe(process.stdin, process.stdout)

    @property
    def age_s(self) -> float:
        """For how long it has been there."""
        return time.monotonic() - self.started

    def resident_bytes(self) -> int:
        """Return what all of its processes hold, each for itself."""
        return sum(map(_resident, _family(self.process.pid)))

    def end(self) -> None:
        """Have it end; `wait` tells when it has."""
        self.pipe.close()
        self.process.terminate()  # the supervisor, which ends all of them

    def wait(self) -> str:
        """Wait until nothing of it is left; return its last words."""
        self._payload_store.join()
        return self.said

    def _keep(self, program: str, begun: SimpleQueue[subprocess.Popen[bytes] | Exception]) -> None:
        self.said = ""
        try:
            confined = _confined(program, self.folder)
            with self._last_words as words:
                process = subprocess.Popen(  # noqa: S603
                    confined.argv,
                    **confined.options,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                )
                begun.put(process)
                if process.wait() < 0:
                    _end_strays(self.folder)
                words.seek(0)
                self.said = words.read(4096).decode(errors="replace").strip()
        except Exception as error:  # noqa: BLE001 - whoever asked for a browser is told
            begun.put(error)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _confined(program: str, folder: Path) -> ConfinedCommand:
    command = [program, *_FLAGS, f"--user-data-dir={folder}"]
    return confine(
        ["/bin/sh", "-c", _START, "sh", str(_DATA_BYTES // 1024), *command],
        # Its resources lie beside it.
        access=SandboxAccess(read=(Path(program).resolve().parent,), write=(folder,)),
        limits=_LIMITS,
        folder=folder,
        temporary=True,
        backend=detect_sandbox().backend,
    )


def _end_strays(folder: Path) -> None:
    """Kill browser processes that a killed supervisor left behind.

    Some of a browser's processes outlive the browser. Their command line names the profile, which
    no other process uses.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    yield from _family(int(child))


def _resident(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        # Without what is mapped from files: they all share that.
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
