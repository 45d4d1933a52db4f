"""Optional parts: which are there, and what that means."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.cli.doctor.sandbox import check_sandbox
from coatcheck.errors import ConfigurationError
from coatcheck.http.surfaces.base import OptionalPart
from coatcheck.mcp.surface import McpSurface
from coatcheck.sandbox.lockdown import detect_protections
from coatcheck.settings import Settings
from coatcheck.surfaces.configured import configured_surfaces
from coatcheck.surfaces.installed import installed_surfaces

AREA = "parts"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell", "chrome")
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def check_parts(database_scheme: str, settings: Settings) -> Iterator[Finding]:
    """Look for every optional part."""
    yield _package("uvloop", "the faster event loop", "jobs and requests run slower without it")
    yield _package("httptools", "the faster HTTP parser", "requests are slower without it")
    yield ok(AREA, f"apsw {apsw.apsw_version()} with SQLite {apsw.sqlite_lib_version()}")
    yield _driver(needed=database_scheme in ("postgresql", "postgres"))
    yield _program("chromium", CHROMIUM, "a browser for kinds that render pages")
    yield from check_sandbox(settings)
    yield _walls()
    yield from _surfaces()
    yield from _configured(settings)
    yield from map(_optional, McpSurface().optional_parts())
    yield _kubernetes()


def _package(name: str, what: str, without: str) -> Finding:
    found = _version(name)
    if found is None:
        return warning(AREA, f"{name} not found: {without}", f"pip install {name}")
    return ok(AREA, f"{name} {found}: {what}")


def _driver(*, needed: bool) -> Finding:
    found = _version("asyncpg")
    if found is not None:
        return ok(AREA, f"asyncpg {found}: the driver for PostgreSQL")
    if needed:
        said = "asyncpg not found: the PostgreSQL database cannot be used"
        return problem(AREA, said, "pip install 'coatcheck[postgres]'")
    return ok(AREA, "asyncpg not found: only needed for PostgreSQL")


def _program(name: str, commands: tuple[str, ...], what: str) -> Finding:
    found = next(filter(None, map(shutil.which, commands)), None)
    if found is None:
        return ok(AREA, f"{name} not found: only needed as {what}")
    return ok(AREA, f"{name} at {found}: {what}")


def _walls() -> Finding:
    protections = detect_protections()
    if protections.complete:
        said = "documents, archives and diagrams are read in processes without files and network"
        return ok(AREA, said)
    said = "what reads documents, archives and diagrams has a clean environment, but it could"
    advice = "run it on Linux 6.12 or newer, x86-64 or ARM64, with Landlock and seccomp"
    return warning(AREA, f"{said} {protections.missing}", advice)


def _surfaces() -> Iterator[Finding]:
    try:
        found = list(installed_surfaces())
    except ConfigurationError as error:
        yield problem(AREA, str(error), "correct it; nothing is served before that")
        return
    for name, surface, missing, advice in found:
        if surface is None:
            yield ok(AREA, f"the surface {name} is left out: {missing} ({advice})")
        else:
            yield ok(AREA, f"the surface {name} can be served")
            yield from map(_part, surface.optional_parts())


def _configured(settings: Settings) -> Iterator[Finding]:
    try:
        surfaces = configured_surfaces(settings)
    except ConfigurationError as error:
        yield problem(AREA, str(error), "correct it; nothing is served before that")
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
    given = os.environ.get("KUBECONFIG")
    places = [Path(part) for part in given.split(os.pathsep) if part] if given else []
    places = [*places, Path.home() / ".kube" / "config", IN_CLUSTER]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        return ok(AREA, "no Kubernetes configuration: only needed to run jobs as pods")
    return ok(AREA, f"Kubernetes configuration in {found}: jobs can run as pods")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
