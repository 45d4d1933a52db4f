"""The sandbox that programs run in: how strong it is, as whom they run, and what it exposes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.sandbox import SandboxBackend, SandboxLimits, detect_sandbox
from coatcheck.sandbox.detect import detect_users
from coatcheck.sandbox.exposure import exposed_files
from coatcheck.sandbox.identity import is_enterable_by_all
from coatcheck.sandbox.seccomp import deny_filter
from coatcheck.settings import Settings

AREA = "parts"
MIB = 1024 * 1024


def check_sandbox(settings: Settings) -> Iterator[Finding]:
    """Say what holds a program back here."""
    found = detect_sandbox()
    said = f"programs run under {found.backend}: {found.says}"
    if found.backend is SandboxBackend.RLIMITS:
        yield warning(AREA, f"{said} ({found.why})", found.advice)
    else:
        yield ok(AREA, said)
    yield _users(found.backend)
    yield _filter(found.backend)
    limits = SandboxLimits()
    yield ok(
        AREA,
        f"a command may use {limits.disk_bytes // MIB} MiB of disk in {limits.files} files, "
        f"{limits.memory_bytes // MIB} MiB of memory and {limits.processes} processes",
    )
    for exposed in exposed_files(settings):
        yield problem(AREA, exposed, "commands are not served before that")


def _users(backend: SandboxBackend) -> Finding:
    users = detect_users(backend)
    temporary = tempfile.gettempdir()
    if users.uids is not None and not is_enterable_by_all([Path(temporary, "folder")]):
        said = f"commands share the uid of the server: other users cannot enter {temporary}"
        return warning(AREA, said, "set TMPDIR to a folder that every user may enter")
    if users.uids is not None:
        return ok(AREA, f"each program has a uid of its own, from {users.uids}")
    said = f"programs share the uid of the server: {users.why}"
    return warning(AREA, said, users.advice) if users.advice else ok(AREA, said)


def _filter(backend: SandboxBackend) -> Finding:
    if deny_filter(owns_files=False) is None:
        said = "no seccomp filter for this processor: programs may change the server's files"
        return warning(AREA, said, "run it on x86-64 or arm64, or under bubblewrap")
    owns = detect_users(backend).uids is not None
    modes = "change modes only of their own files" if owns else "cannot change modes of files"
    return ok(AREA, f"seccomp: programs {modes}, watch no files, and limit no other process")
