"""The command itself: every check, whatever becomes of the others."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.core import ParameterSource

from coatcheck.cli import exit_codes
from coatcheck.cli.doctor.blobs import look_at_blobs
from coatcheck.cli.doctor.clock import check_clock, look
from coatcheck.cli.doctor.disk import check_disk
from coatcheck.cli.doctor.files import check_files
from coatcheck.cli.doctor.findings import Finding, Level, ok, problem
from coatcheck.cli.doctor.limits import check_limits
from coatcheck.cli.doctor.parts import check_parts
from coatcheck.cli.doctor.server import check_server
from coatcheck.cli.doctor.settings import differing, shown
from coatcheck.cli.doctor.state import check_inside
from coatcheck.cli.doctor.store import StoreView, look_at_store
from coatcheck.cli.doctor.timeout import CheckTimedOut, ask
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, SETTING_OPTIONS, options
from coatcheck.cli.output.terminal import out, plain, print_json
from coatcheck.errors import CoatcheckError
from coatcheck.sandbox.identity import SETTING as SANDBOX_UIDS
from coatcheck.settings import Settings, load_settings

_STUCK = (
    "see whether a process that uses it is stopped or hangs, holding its lock, and end that one"
)
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}


@click.command()
@options(*SETTING_OPTIONS, JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def doctor(
    ctx: click.Context, /, as_json: bool, url: str, api_key: str | None, **flags: Any
) -> None:
    """Say whether all is well here, and what to do where it is not.

    Looks at the settings, the database and its migrations, the disk, the blob store, the clock,
    workers, queues, optional parts, and whether a server answers. Changes nothing, and needs no
    server. The exit code is 1 where there is a problem; warnings leave it at 0.

    \b
    Examples:
        coatcheck doctor
        coatcheck doctor --database sqlite:////var/lib/shop/jobs.db
        coatcheck doctor --json | jq '.checks[] | select(.level != "ok")'
    """
    logging.disable(logging.CRITICAL)  # what goes wrong is a finding, said once
    asked_for = ctx.get_parameter_source("url") is not ParameterSource.DEFAULT
    try:
        settings = load_settings(flags)
    except CoatcheckError as error:
        _finish(as_json, {}, [problem("settings", str(error), "correct it; all else needs it")])
        return
    os.environ[SANDBOX_UIDS] = settings.sandbox_uids
    values = shown(settings, url, api_key)
    findings = _examine(settings, values, url, api_key, asked_for)
    _finish(as_json, values, findings)


def _examine(
    settings: Settings, values: dict[str, Any], url: str, api_key: str | None, asked_for: bool
) -> list[Finding]:
    first = look()
    others = differing(values)
    findings = [ok("settings", others or "every setting has its default")]
    view = StoreView([])

    def store() -> Iterable[Finding]:
        nonlocal view
        try:
            view = ask(lambda: look_at_store(settings))
        except CheckTimedOut as error:
            return [problem("store", f"the store gave {error}", _STUCK)]
        return view.findings

    def on_disk() -> Iterable[Finding]:
        path = view.sqlite_path
        return [] if path is None else [*check_disk(path), *check_files(path)]

    def blobs() -> Iterable[Finding]:
        try:
            return ask(lambda: look_at_blobs(settings, view.scheme))
        except CheckTimedOut as error:
            advice = "see whether its address is right, and what lies between"
            return [problem("blobs", f"the blob store gave {error}", advice)]

    def inside() -> Iterable[Finding]:
        return [] if view.inside is None else check_inside(view.inside)

    def server() -> Iterable[Finding]:
        return [check_server(url, values["url"], api_key, asked_for=asked_for)]

    checks: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
        ("store", store),
        ("disk", on_disk),
        ("blobs", blobs),
        ("server", server),
        ("workers", inside),
        ("limits", lambda: check_limits(settings)),
        ("clock", lambda: check_clock(first, view.database_ahead_ms)),
        ("parts", lambda: check_parts(view.scheme, settings)),
    )
    for area, check in checks:
        try:
            findings += list(check())
        except Exception as error:  # noqa: BLE001 - one check that fails must not end the others
            # Its words may hold anything, a password too.
            said = f"this check itself failed: {type(error).__name__}"
            findings.append(problem(area, said, "please report it"))
    return findings


def _finish(as_json: bool, values: dict[str, Any], findings: list[Finding]) -> None:
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    warnings = sum(finding.level is Level.WARNING for finding in findings)
    if as_json:
        checks = [finding._asdict() for finding in findings]
        print_json({"ok": not problems, "settings": values, "checks": checks})
    else:
        for finding in findings:
            _print(finding)
        out().print(f"\n{problems} problem(s), {warnings} warning(s)")
    sys.stdout.flush()
    if any(finding.advice == _STUCK for finding in findings):
        os._exit(
            exit_codes.FAILED
        )  # a thread was left behind, which an orderly exit would wait for
    if problems:
        sys.exit(exit_codes.FAILED)


def _print(finding: Finding) -> None:
    console = out()
    console.print(f"{finding.level:<8}", style=STYLES[finding.level], end=" ")
    console.print(f"{finding.area:<11}{plain(finding.message)}", soft_wrap=True)
    if finding.advice:
        console.print(f"{'':<20}{plain(finding.advice)}", style="dim", soft_wrap=True)
