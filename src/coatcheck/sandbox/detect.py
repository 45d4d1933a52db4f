"""Which sandbox this machine can make, found by making one."""

from __future__ import annotations

import logging
import os
import pwd
import subprocess
from dataclasses import dataclass
from functools import cache

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox.backends import SandboxBackend, require_parts
from coatcheck.sandbox.command import confined_command
from coatcheck.sandbox.identity import SETTING, UidRange, uid_range
from coatcheck.sandbox.reach import SandboxAccess, SandboxLimits

logger = logging.getLogger("coatcheck.sandbox")

# A start takes milliseconds; a machine that is busy may need longer.
PROBE_S = 20.0


@dataclass(frozen=True)
class DetectedSandbox:
    """The sandbox that programs run in here."""

    strength: SandboxBackend
    says: str  # what it holds, in a sentence
    why: str = ""  # why it is none that is stronger
    advice: str = ""  # what would make it stronger


_HOLDS = {
    SandboxBackend.LANDLOCK: "Landlock and seccomp: files, sockets, processes and memory are held",
    SandboxBackend.BUBBLEWRAP: "bubblewrap: namespaces with nothing in them but what is bound",
    SandboxBackend.RLIMITS: "resource limits only: the program has this user's files and network",
}


@cache
def sandbox_in_force() -> DetectedSandbox:
    """Return the strongest sandbox that works here; looked for once in a process's life."""
    reasons: list[str] = []
    for strength in (SandboxBackend.LANDLOCK, SandboxBackend.BUBBLEWRAP):
        reason = why_not(strength)
        if reason is None:
            return _found(strength, reasons)
        reasons.append(f"{strength.value}: {reason}")
    found = _found(SandboxBackend.RLIMITS, reasons)
    logger.warning("programs run without a sandbox: %s", found.says, extra={"why": found.why})
    return found


@dataclass(frozen=True)
class UsersInForce:
    """The uids that programs run as here."""

    uids: UidRange | None  # None: they share the server's
    why: str = ""  # why they have none of their own
    advice: str = ""


@cache
def users_in_force(strength: SandboxBackend) -> UsersInForce:
    """Return which uids programs of a strength get; tried once in a process's life.

    Raises ConfigurationError when a part that the strength needs is not installed.
    """
    require_parts(strength)
    if os.geteuid() != 0:
        return UsersInForce(None, "only a server that runs as root can give them others")
    uids = uid_range()
    if uids is None:
        return UsersInForce(
            None, "this user namespace has too few uids", f"name a range: {SETTING}=FIRST-LAST"
        )
    taken = next((one for one in pwd.getpwall() if uids.first <= one.pw_uid <= uids.last), None)
    if taken is not None:
        return UsersInForce(
            None, f"uids {uids} are not free: {taken.pw_name}", f"name another range in {SETTING}"
        )
    if (reason := why_not(strength, uids)) is not None:
        advice = "run the server as a user of its own, or give it CAP_SETUID, SETGID and CHOWN"
        return UsersInForce(None, f"uids {uids} cannot be used: {reason}", advice)
    return UsersInForce(uids)


def why_not(strength: SandboxBackend, uids: UidRange | None = None) -> str | None:
    """Return why programs cannot be confined in this way here; None where they can."""
    try:
        probe = confined_command(
            ["true"],
            reach=SandboxAccess(),
            limits=SandboxLimits(seconds=PROBE_S),
            folder=None,
            environment={},
            strength=strength,
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
    return said[-1] if said else f"a trial ended with exit code {ended.returncode}"


def _found(strength: SandboxBackend, reasons: list[str]) -> DetectedSandbox:
    advice = ""
    if strength is not SandboxBackend.LANDLOCK:
        advice = "install coatcheck[sandbox] on Linux 6.7 or newer"
    if strength is SandboxBackend.RLIMITS:
        advice += ", or the system's package bubblewrap; else run only commands that you trust"
    return DetectedSandbox(strength, _HOLDS[strength], "; ".join(reasons), advice)
