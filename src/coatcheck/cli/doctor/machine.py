"""Checks of the machine: the disk, file permissions, file descriptors and the clock."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.cli.output.time_format import short
from coatcheck.descriptors import DescriptorBudget, reachable_limit
from coatcheck.errors import ConfigurationError
from coatcheck.private_files import is_open_to_others
from coatcheck.settings import Settings
from coatcheck.store.sqlite.database.locks import refuse_network_filesystem

GIB = 1024**3
LOW_SPACE = GIB
CRITICAL_SPACE = GIB // 10
IN_MEMORY = ("tmpfs", "ramfs")
MOUNTS = Path("/proc/self/mountinfo")


def check_disk(path: Path) -> Iterator[Finding]:
    """Check the file system of a database, which need not exist yet."""
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    message = f"{free / GIB:.1f} GiB free for {path.name}"
    if free < CRITICAL_SPACE:
        yield problem(
            "disk", message, "free disk space: with a full disk every new job is rejected with 503"
        )
    elif free < LOW_SPACE:
        yield warning("disk", message, "free disk space, or shorten the retention of jobs")
    else:
        yield ok("disk", message)
    yield _check_durability(path, existing)


def _check_durability(path: Path, existing: Path) -> Finding:
    name = filesystem_of(existing)
    try:
        refuse_network_filesystem(path)
    except ConfigurationError as error:
        return problem("disk", str(error), "use a local disk, or PostgreSQL for several machines")
    if name in IN_MEMORY:
        message = f"the file system is {name}, which is in memory"
        return warning("disk", message, "put the database on a disk: a restart loses all jobs")
    if name == "overlay":
        message = "the file system belongs to a container (overlay)"
        return warning("disk", message, "mount a volume: jobs are lost with the container")
    return ok("disk", f"the file system is {name}")


def filesystem_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of a path's file system, as the kernel names it."""
    try:
        device = path.stat().st_dev
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        mount, _, filesystem = line.partition(" - ")
        if mount.split(" ")[2] == wanted:
            return filesystem.partition(" ")[0]
    return "unknown"


def check_files(database: Path) -> list[Finding]:
    """Warn about files and directories that users other than the owner can access."""
    directory = database.parent
    if not directory.is_dir():
        return []
    named = sorted(directory.glob(f"{database.stem}*"))
    exposed = [path for path in (directory, directory / "blobs", *named) if _is_exposed(path)]
    if not exposed:
        return [ok("files", f"only the owner can read the files in {directory}")]
    listed = ", ".join(f"{path} ({stat.S_IMODE(path.stat().st_mode):o})" for path in exposed)
    advice = f"chmod go= {' '.join(str(path) for path in exposed)}"
    return [warning("files", f"users other than the owner can access {listed}", advice)]


def _is_exposed(path: Path) -> bool:
    try:
        return is_open_to_others(path)
    except FileNotFoundError:
        return False


# With fewer, a few hundred waiting clients exhaust the connections.
FEW_DESCRIPTORS = 4096


def check_limits(settings: Settings) -> Iterator[Finding]:
    """Report the descriptors a server would have here, and how they are allocated."""
    budget = DescriptorBudget(reachable_limit())
    message = (
        f"{budget.limit:,} file descriptors: {budget.connections:,} connections, "
        f"{budget.reserve:,} in reserve"
    )
    if budget.limit < FEW_DESCRIPTORS:
        yield warning(
            "limits", message, f"raise the hard limit to {FEW_DESCRIPTORS:,} or more (ulimit -Hn)"
        )
    else:
        yield ok("limits", message)
    requests = settings.tenant_requests or budget.per_tenant
    message = f"each tenant: {requests:,} open requests, {settings.tenant_uploads:,} uploads"
    if requests > budget.connections:
        advice = (
            f"set tenant_requests to less than {budget.connections:,}: one tenant could use all"
        )
        yield warning("limits", message, advice)
    else:
        yield ok("limits", message)


# The tolerated drift of the wall clock between the two readings.
DRIFT_MS = 100
# The minimum time between the readings.
READINGS_APART_S = 0.3
SKEW_MS = 1_000
LARGE_SKEW_MS = 60_000
# Before this program was written (2025-01-01).
TOO_EARLY_MS = 1_735_689_600_000

_ADVICE = "synchronize the clock with NTP (chrony, systemd-timesyncd): schedules depend on it"


class ClockReading(NamedTuple):
    """Both clocks at one moment, in milliseconds."""

    wall: float
    monotonic: float


def read_clocks() -> ClockReading:
    """Read both clocks."""
    return ClockReading(time.time() * 1000, time.monotonic() * 1000)


def check_clock(first: ClockReading, database_ahead_ms: float | None) -> Iterator[Finding]:
    """Compare the clocks with an earlier reading, and with the database's clock."""
    left_s = READINGS_APART_S - (time.monotonic() - first.monotonic / 1000)
    if left_s > 0:
        time.sleep(left_s)
    yield _check_drift(first, read_clocks())
    if database_ahead_ms is not None:
        yield _check_skew(database_ahead_ms)


def _check_drift(first: ClockReading, second: ClockReading) -> Finding:
    passed = second.monotonic - first.monotonic
    drift = (second.wall - first.wall) - passed
    if second.wall < TOO_EARLY_MS:
        return problem("clock", "the wall clock is years behind", _ADVICE)
    if abs(drift) > DRIFT_MS:
        message = (
            f"the wall clock moved {drift:+.0f} ms against the monotonic one in {short(passed)}"
        )
        return warning("clock", message, _ADVICE)
    return ok("clock", "the wall clock is steady")


def _check_skew(ahead_ms: float) -> Finding:
    if abs(ahead_ms) <= SKEW_MS:
        return ok("clock", f"it is within {abs(ahead_ms):.0f} ms of the database's clock")
    which = "behind" if ahead_ms > 0 else "ahead of"
    message = f"this clock is {short(abs(ahead_ms))} {which} the database's clock"
    return (problem if abs(ahead_ms) > LARGE_SKEW_MS else warning)("clock", message, _ADVICE)
