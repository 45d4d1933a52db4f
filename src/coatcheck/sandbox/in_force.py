"""Which sandbox this machine can make, found by making one."""

from __future__ import annotations

import logging
import subprocess
from dataclasses import dataclass
from functools import cache

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox.confined import confined_command
from coatcheck.sandbox.reach import Limits, Reach
from coatcheck.sandbox.strength import Strength

logger = logging.getLogger("coatcheck.sandbox")

# A start takes milliseconds; a machine that is busy may need longer.
PROBE_S = 20.0


@dataclass(frozen=True)
class InForce:
    """The sandbox that programs run in here."""

    strength: Strength
    says: str  # what it holds, in a sentence
    why: str = ""  # why it is none that is stronger
    advice: str = ""  # what would make it stronger


_HOLDS = {
    Strength.LANDLOCK: "Landlock and seccomp: files, sockets, processes and memory are held",
    Strength.BUBBLEWRAP: "bubblewrap: namespaces with nothing in them but what is bound",
    Strength.RLIMITS: "limits only: a program reads what this user reads, and calls whom it likes",
}


@cache
def sandbox_in_force() -> InForce:
    """Return the strongest sandbox that works here; looked for once in a process's life."""
    reasons: list[str] = []
    for strength in (Strength.LANDLOCK, Strength.BUBBLEWRAP):
        reason = why_not(strength)
        if reason is None:
            return _found(strength, reasons)
        reasons.append(f"{strength.value}: {reason}")
    found = _found(Strength.RLIMITS, reasons)
    logger.warning("programs run without a sandbox: %s", found.says, extra={"why": found.why})
    return found


def why_not(strength: Strength) -> str | None:
    """Return why programs cannot be confined in this way here; None where they can."""
    try:
        probe = confined_command(
            ["true"],
            reach=Reach(),
            limits=Limits(seconds=PROBE_S),
            folder=None,
            environment={},
            strength=strength,
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


def _found(strength: Strength, reasons: list[str]) -> InForce:
    advice = ""
    if strength is not Strength.LANDLOCK:
        advice = "install coatcheck[sandbox] on Linux 6.7 or newer"
    if strength is Strength.RLIMITS:
        advice += ", or the system's package bubblewrap; else run only commands that you trust"
    return InForce(strength, _HOLDS[strength], "; ".join(reasons), advice)
