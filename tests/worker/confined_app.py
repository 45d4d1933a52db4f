"""An app with confined handlers that try what a hostile document could make a parser do."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coatcheck import App, Context, Upload
from coatcheck.model.confinement import Confinement, ServedJob
from coatcheck.model.options import SurfaceOptions

app = App()


async def answer(job: ServedJob, name: str, body: bytes) -> bytes:
    return f"{job.tenant} {name} {body.decode()} {os.getpid()}".encode()


CONFINEMENT = Confinement(environment=("ALLOWED",), service=answer)


def attempt(action: Callable[[], object]) -> str:
    """Return the outcome of something that must not be possible."""
    try:
        return f"done: {action()}"
    except OSError as error:
        return type(error).__name__


def _prlimit(pid: int) -> None:
    limits = (ctypes.c_uint64 * 2)(3, 3)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prlimit(pid, 7, limits, None):
        raise OSError(ctypes.get_errno(), "prlimit")


@app.job(isolation="process", surface=SurfaceOptions(confinement=CONFINEMENT))
def attack(ctx: Context, target: dict[str, Any]) -> dict[str, str]:
    """Try to reach the worker, its data, and every local listener."""
    parent, secret = os.getppid(), Path(target["secret"])
    tried: dict[str, Callable[[], object]] = {
        "loopback": lambda: socket.create_connection(("127.0.0.1", target["port"]), 1),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "unix": lambda: socket.socket(socket.AF_UNIX).connect(target["unix"]),
        "datagram": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        "read": secret.read_text,
        "write": lambda: secret.write_text("overwritten"),
        "make": lambda: secret.with_name("new").write_text("made"),
        "link": lambda: os.link(secret, Path(tempfile.gettempdir(), "link")),
        "chmod": lambda: secret.chmod(0o777),
        "utime": lambda: os.utime(secret),
        "xattr": lambda: os.setxattr(secret, "user.x", b"x"),
        "passwords": Path("/etc/passwd").read_text,
        "environment": Path(f"/proc/{parent}/environ").read_bytes,
        "command line": Path(f"/proc/{parent}/cmdline").read_bytes,
        "memory": Path(f"/proc/{parent}/mem").read_bytes,
        "signal": lambda: os.kill(parent, signal.SIGCONT),
        "limit": lambda: _prlimit(parent),
        "priority": lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
        "shared memory": lambda: Path("/dev/shm/coatcheck").write_text("x"),
    }
    return {name: attempt(action) for name, action in tried.items()}


@app.job(isolation="process", surface=SurfaceOptions(confinement=CONFINEMENT))
def surroundings(ctx: Context) -> dict[str, Any]:
    """Return what the process has access to."""
    descriptors = {}
    for number in range(64):
        try:
            descriptors[number] = str(Path(f"/proc/self/fd/{number}").readlink())
        except OSError:
            continue
    with tempfile.NamedTemporaryFile() as file:
        temporary = file.name
    return {
        "pid": os.getpid(),
        "tenant": ctx.tenant,
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "temporary": temporary,
        "descriptors": descriptors,
    }


@app.job(isolation="process", surface=SurfaceOptions(confinement=CONFINEMENT))
def read_upload(ctx: Context, upload: Upload) -> dict[str, str]:
    """Read a file of the job, and try to redirect the next one."""
    path: Path = ctx.file(upload)
    return {
        "content": path.read_text(),
        "write": attempt(lambda: path.write_text("changed")),
        "plant": attempt(lambda: (path.parent.parent / "planted").symlink_to("/etc")),
    }


@app.job(isolation="process", surface=SurfaceOptions(confinement=CONFINEMENT))
def ask(ctx: Context, what: str) -> str:
    said: bytes = ctx.service("echo", what.encode())
    return said.decode()


@app.job(isolation="process", surface=SurfaceOptions(confinement=CONFINEMENT))
def hold(ctx: Context, seconds: float) -> int:
    """Hold a slot until it is cancelled."""
    while not ctx.cancelled:
        signal.sigtimedwait([], 0.02)
    return os.getpid()


@app.job(isolation="process", surface=SurfaceOptions(confinement=CONFINEMENT))
def brief(ctx: Context) -> int:
    return os.getpid()
