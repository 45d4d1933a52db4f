"""`coatcheck doctor`: run every check, even if others fail."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from coatcheck.cli import exit_codes
from coatcheck.cli.doctor.findings import Finding, Level, ok, problem
from coatcheck.cli.doctor.machine import (
    check_clock,
    check_disk,
    check_files,
    check_limits,
    read_clocks,
)
from coatcheck.cli.doctor.parts import check_parts
from coatcheck.cli.doctor.services import CheckTimedOut, check_blobs, check_server, run_with_limit
from coatcheck.cli.doctor.store import StoreView, check_facts, inspect_store
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, SETTING_OPTIONS, options
from coatcheck.cli.output.terminal import out, plain, print_json
from coatcheck.client.address import without_password
from coatcheck.crypto.secret_refs import resolver_for
from coatcheck.errors import CoatcheckError
from coatcheck.sandbox.identity import SETTING as SANDBOX_UIDS
from coatcheck.settings import Settings, load_settings

_STUCK = "find the process that is stopped or hangs while it holds the lock, and end it"
# Addresses that may contain a password.
ADDRESSES = ("database", "listen", "blobs")
SECRETS = ("pepper", "webhook_secret", "encryption_keys")
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}


@click.command()
@options(*SETTING_OPTIONS, JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def doctor(
    ctx: click.Context, /, as_json: bool, url: str, api_key: str | None, **flags: Any
) -> None:
    """Check the installation, and advise how to fix problems.

    Checks the settings, the database and its migrations, the disk, the blob store, the clock,
    workers, queues, optional parts and the server. Changes nothing, and needs no server. The exit
    code is 1 if there is a problem; warnings do not change it.

    \b
    Examples:
        coatcheck doctor
        coatcheck doctor --database sqlite:////var/lib/shop/jobs.db
        coatcheck doctor --json | jq '.checks[] | select(.level != "ok")'
    """
    logging.disable(logging.CRITICAL)  # errors are findings, and are printed once
    is_required = ctx.get_parameter_source("url") is not ParameterSource.DEFAULT
    try:
        settings = load_settings(flags)
    except CoatcheckError as error:
        _finish(
            as_json, {}, [problem("settings", str(error), "correct it; the other checks need it")]
        )
        return
    os.environ[SANDBOX_UIDS] = settings.sandbox_uids
    values = shown_settings(settings, url, api_key)
    findings = _run_checks(settings, values, url, api_key, is_required)
    _finish(as_json, values, findings)


def _run_checks(
    settings: Settings, values: dict[str, Any], url: str, api_key: str | None, is_required: bool
) -> list[Finding]:
    first = read_clocks()
    changed = changed_settings(values)
    findings = [ok("settings", changed or "all settings have their defaults")]
    view = StoreView([])

    def store() -> Iterable[Finding]:
        nonlocal view
        try:
            view = run_with_limit(lambda: inspect_store(settings))
        except CheckTimedOut as error:
            return [problem("store", f"the store {error}", _STUCK)]
        return view.findings

    def disk() -> Iterable[Finding]:
        path = view.sqlite_path
        return [] if path is None else [*check_disk(path), *check_files(path)]

    def blobs() -> Iterable[Finding]:
        try:
            return run_with_limit(lambda: check_blobs(settings, view.scheme))
        except CheckTimedOut as error:
            advice = "check its address and the network in between"
            return [problem("blobs", f"the blob store {error}", advice)]

    def workers() -> Iterable[Finding]:
        return [] if view.facts is None else check_facts(view.facts)

    def server() -> Iterable[Finding]:
        return [check_server(url, values["url"], api_key, is_required=is_required)]

    checks: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
        ("store", store),
        ("disk", disk),
        ("blobs", blobs),
        ("server", server),
        ("workers", workers),
        ("limits", lambda: check_limits(settings)),
        ("clock", lambda: check_clock(first, view.database_ahead_ms)),
        ("parts", lambda: check_parts(view.scheme, settings)),
    )
    for area, check in checks:
        try:
            findings += list(check())
        except Exception as error:  # noqa: BLE001 - a failing check must not prevent the others
            # Its message could contain a password.
            message = f"the check itself failed: {type(error).__name__}"
            findings.append(problem(area, message, "please report this bug"))
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
        os._exit(exit_codes.FAILED)  # an orderly exit would wait for the abandoned thread
    if problems:
        sys.exit(exit_codes.FAILED)


def _print(finding: Finding) -> None:
    console = out()
    console.print(f"{finding.level:<8}", style=STYLES[finding.level], end=" ")
    console.print(f"{finding.area:<11}{plain(finding.message)}", soft_wrap=True)
    if finding.advice:
        console.print(f"{'':<20}{plain(finding.advice)}", style="dim", soft_wrap=True)


def shown_settings(settings: Settings, url: str, api_key: str | None) -> dict[str, Any]:
    """Return all settings, with secrets hidden."""
    values = {
        name: _redact(value) if name in (*ADDRESSES, *SECRETS) else value
        for name, value in dataclasses.asdict(settings).items()
    }
    return {**values, "url": without_password(url), "api_key": "(set)" if api_key else ""}


def changed_settings(values: Mapping[str, Any]) -> str:
    """List the settings that differ from their defaults."""
    defaults = {**dataclasses.asdict(Settings()), "api_key": ""}
    return ", ".join(
        f"{name}={value}"
        for name, value in values.items()
        if name in defaults and value != defaults[name]
    )


def _redact(value: str) -> str:
    """Show references, paths and bucket names; hide all but the scheme of other addresses."""
    scheme, separator, _ = value.partition("://")
    plain = scheme in ("sqlite", "file", "s3", "az", "gs") and separator
    if not value or (plain and "@" not in value and "?" not in value):
        return value
    try:
        if resolver_for(value) is not None:
            return value
    except Exception:  # noqa: BLE001 - third-party code; hide the value
        return "(hidden)"
    return f"{scheme}://(hidden)" if separator and scheme.isalnum() else "(hidden)"
