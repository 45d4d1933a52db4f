"""Detecting which sandbox this machine supports, by running a trial program."""

from __future__ import annotations

import logging
import os
import pwd
import subprocess
from dataclasses import dataclass
from functools import cache

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox.access import SandboxAccess, SandboxLimits
from coatcheck.sandbox.backends import SandboxBackend, require_installed
from coatcheck.sandbox.command import confined_command
from coatcheck.sandbox.identity import SETTING, UidRange, uid_range

logger = logging.getLogger("coatcheck.sandbox")

# A start takes milliseconds; a busy machine may need longer.
PROBE_S = 20.0


@dataclass(frozen=True)
class DetectedSandbox:
    """The sandbox that programs run in on this machine."""

    backend: SandboxBackend
    says: str  # what it restricts, in a sentence
    why: str = ""  # why no stronger backend is available
    advice: str = ""  # how to get a stronger one


_HOLDS = {
    SandboxBackend.LANDLOCK: "Landlock and seccomp restrict files, sockets, processes and memory",
    SandboxBackend.BUBBLEWRAP: "bubblewrap: namespaces that contain only what is bound",
    SandboxBackend.RLIMITS: "resource limits only: programs can use this user's files and network",
}


@cache
def detect_sandbox() -> DetectedSandbox:
    """Return the strongest sandbox that works on this machine; detected once per process."""
    reasons: list[str] = []
    for backend in (SandboxBackend.LANDLOCK, SandboxBackend.BUBBLEWRAP):
        reason = why_unavailable(backend)
        if reason is None:
            return _detected(backend, reasons)
        reasons.append(f"{backend.value}: {reason}")
    found = _detected(SandboxBackend.RLIMITS, reasons)
    logger.warning("sandbox unavailable: %s", found.says, extra={"why": found.why})
    return found


@dataclass(frozen=True)
class DetectedUsers:
    """The uids that programs run as on this machine."""

    uids: UidRange | None  # None: the server's own
    why: str = ""  # why they have no uids of their own
    advice: str = ""


@cache
def detect_users(backend: SandboxBackend) -> DetectedUsers:
    """Return the uids that programs of a backend get; detected once per process.

    Raise ConfigurationError if the backend is not installed.
    """
    require_installed(backend)
    if os.geteuid() != 0:
        return DetectedUsers(None, "only a server that runs as root can use other uids")
    uids = uid_range()
    if uids is None:
        return DetectedUsers(
            None, "this user namespace has too few uids", f"set a range: {SETTING}=FIRST-LAST"
        )
    taken = next((one for one in pwd.getpwall() if uids.first <= one.pw_uid <= uids.last), None)
    if taken is not None:
        return DetectedUsers(
            None, f"uids {uids} are not free: {taken.pw_name}", f"set another range in {SETTING}"
        )
    if (reason := why_unavailable(backend, uids)) is not None:
        advice = "run the server as a dedicated user, or give it CAP_SETUID, SETGID and CHOWN"
        return DetectedUsers(None, f"uids {uids} cannot be used: {reason}", advice)
    return DetectedUsers(uids)


def why_unavailable(backend: SandboxBackend, uids: UidRange | None = None) -> str | None:
    """Return why a backend does not work on this machine; None if it does."""
    try:
        probe = confined_command(
            ["true"],
            access=SandboxAccess(),
            limits=SandboxLimits(seconds=PROBE_S),
            folder=None,
            environment={},
            backend=backend,
            uids=uids,
        )
        ended = subprocess.run(  # noqa: S603
            probe.argv, **probe.options, capture_output=True, timeout=2 * PROBE_S, check=False
        )
    except (ConfigurationError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ended.returncode == 0:
        return None
    said = ended.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"a trial run failed with exit code {ended.returncode}"


def _detected(backend: SandboxBackend, reasons: list[str]) -> DetectedSandbox:
    advice = ""
    if backend is not SandboxBackend.LANDLOCK:
        advice = "install coatcheck[sandbox] on Linux 6.7 or newer"
    if backend is SandboxBackend.RLIMITS:
        advice += ", or the system's package bubblewrap; otherwise run only commands that you trust"
    return DetectedSandbox(backend, _HOLDS[backend], "; ".join(reasons), advice)
