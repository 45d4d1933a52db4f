"""Checks of optional parts: packages, programs, the sandbox and the surfaces."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.errors import ConfigurationError
from coatcheck.http.surfaces.base import OptionalPart
from coatcheck.mcp.surface import McpSurface
from coatcheck.sandbox import SandboxBackend, SandboxLimits, detect_sandbox
from coatcheck.sandbox.detect import detect_users
from coatcheck.sandbox.exposure import exposed_files
from coatcheck.sandbox.identity import is_enterable_by_all
from coatcheck.sandbox.lockdown import detect_protections
from coatcheck.sandbox.seccomp import deny_filter
from coatcheck.settings import Settings
from coatcheck.surfaces.configured import configured_surfaces
from coatcheck.surfaces.installed import installed_surfaces

AREA = "parts"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell", "chrome")
MIB = 1024 * 1024
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def check_parts(database_scheme: str, settings: Settings) -> Iterator[Finding]:
    """Check every optional part."""
    yield _package("uvloop", "the faster event loop", "jobs and requests run slower without it")
    yield _package("httptools", "the faster HTTP parser", "requests are slower without it")
    yield ok(AREA, f"apsw {apsw.apsw_version()} with SQLite {apsw.sqlite_lib_version()}")
    yield _driver(needed=database_scheme in ("postgresql", "postgres"))
    yield _program("chromium", CHROMIUM, "a browser for kinds that render pages")
    yield from check_sandbox(settings)
    yield _parser_sandbox()
    yield from _surfaces()
    yield from _configured(settings)
    yield from map(_optional, McpSurface().optional_parts())
    yield _kubernetes()


def _package(name: str, purpose: str, without: str) -> Finding:
    found = _version(name)
    if found is None:
        return warning(AREA, f"{name} not found: {without}", f"pip install {name}")
    return ok(AREA, f"{name} {found}: {purpose}")


def _driver(*, needed: bool) -> Finding:
    found = _version("asyncpg")
    if found is not None:
        return ok(AREA, f"asyncpg {found}: the driver for PostgreSQL")
    if needed:
        message = "asyncpg not found: the PostgreSQL database cannot be used"
        return problem(AREA, message, "pip install 'coatcheck[postgres]'")
    return ok(AREA, "asyncpg not found: only needed for PostgreSQL")


def _program(name: str, commands: tuple[str, ...], purpose: str) -> Finding:
    found = next(filter(None, map(shutil.which, commands)), None)
    if found is None:
        return ok(AREA, f"{name} not found: only needed as {purpose}")
    return ok(AREA, f"{name} at {found}: {purpose}")


def _parser_sandbox() -> Finding:
    protections = detect_protections()
    if protections.complete:
        message = (
            "documents, archives and diagrams are parsed in processes without files and network"
        )
        return ok(AREA, message)
    message = "the parsers of documents, archives and diagrams have a clean environment, but could"
    advice = "run it on Linux 6.12 or newer, x86-64 or ARM64, with Landlock and seccomp"
    return warning(AREA, f"{message} {protections.missing}", advice)


def _surfaces() -> Iterator[Finding]:
    try:
        found = list(installed_surfaces())
    except ConfigurationError as error:
        yield problem(AREA, str(error), "correct it; nothing is served until then")
        return
    for name, surface, missing, advice in found:
        if surface is None:
            yield ok(AREA, f"surface {name} is not available: {missing} ({advice})")
        else:
            yield ok(AREA, f"surface {name} is available")
            yield from map(_part, surface.optional_parts())


def _configured(settings: Settings) -> Iterator[Finding]:
    try:
        surfaces = configured_surfaces(settings)
    except ConfigurationError as error:
        yield problem(AREA, str(error), "correct it; nothing is served until then")
        return
    for surface in surfaces:
        yield from map(_part, surface.optional_parts())


def _part(part: OptionalPart) -> Finding:
    if part.missing:
        return warning(AREA, part.says, part.missing)
    return ok(AREA, part.says)


def _optional(part: OptionalPart) -> Finding:
    return ok(AREA, part.says, part.missing)


def _kubernetes() -> Finding:
    variable = os.environ.get("KUBECONFIG")
    paths = [Path(part) for part in variable.split(os.pathsep) if part] if variable else []
    paths = [*paths, Path.home() / ".kube" / "config", IN_CLUSTER]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        return ok(AREA, "no Kubernetes configuration: only needed to run jobs as pods")
    return ok(AREA, f"Kubernetes configuration in {found}: jobs can run as pods")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_sandbox(settings: Settings) -> Iterator[Finding]:
    """Report the sandbox that programs run in."""
    found = detect_sandbox()
    message = f"programs run under {found.backend}: {found.says}"
    if found.backend is SandboxBackend.RLIMITS:
        yield warning(AREA, f"{message} ({found.why})", found.advice)
    else:
        yield ok(AREA, message)
    yield _users(found.backend)
    yield _filter(found.backend)
    limits = SandboxLimits()
    yield ok(
        AREA,
        f"a command may use {limits.disk_bytes // MIB} MiB of disk in {limits.files} files, "
        f"{limits.memory_bytes // MIB} MiB of memory and {limits.processes} processes",
    )
    for exposed in exposed_files(settings):
        yield problem(AREA, exposed, "commands are not served until then")


def _users(backend: SandboxBackend) -> Finding:
    users = detect_users(backend)
    temporary = tempfile.gettempdir()
    if users.uids is not None and not is_enterable_by_all([Path(temporary, "folder")]):
        message = f"commands share the server's uid: other users cannot enter {temporary}"
        return warning(AREA, message, "set TMPDIR to a folder that every user can enter")
    if users.uids is not None:
        return ok(AREA, f"each program has its own uid, from {users.uids}")
    message = f"programs share the server's uid: {users.why}"
    return warning(AREA, message, users.advice) if users.advice else ok(AREA, message)


def _filter(backend: SandboxBackend) -> Finding:
    if deny_filter(owns_files=False) is None:
        message = "no seccomp filter for this processor: programs can change the server's files"
        return warning(AREA, message, "run it on x86-64 or arm64, or under bubblewrap")
    owns = detect_users(backend).uids is not None
    modes = "change modes only of their own files" if owns else "cannot change file modes"
    return ok(
        AREA, f"seccomp: programs {modes}, cannot watch files, and cannot limit other processes"
    )
