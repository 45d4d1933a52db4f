"""`coatcheck tenants`: tenants, their quotas and their usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coatcheck.cli.admin import with_authenticator
from coatcheck.cli.options import JSON_OPTION, SETTING_OPTIONS, options
from coatcheck.cli.output.tables import TableColumn, print_pairs, print_table
from coatcheck.cli.output.terminal import print_json
from coatcheck.clock import SystemClock
from coatcheck.engine.auth import Authenticator
from coatcheck.errors import InvalidPayload
from coatcheck.http.access.handlers import tenant_view, usage_view
from coatcheck.model.access import Quotas, Tenant, TenantStatus
from coatcheck.model.audit import CLI
from coatcheck.model.duration import milliseconds
from coatcheck.model.usage import Usage
from coatcheck.store.base import Store

PAGE = 200
COLUMNS = (
    TableColumn("TENANT"),
    TableColumn("STATUS"),
    TableColumn("SINCE", 2),
    TableColumn("QUOTAS", 1),
)
USED = (
    *(TableColumn("HOUR"), TableColumn("KIND"), TableColumn("SUBMITTED"), TableColumn("SUCCEEDED")),
    *(
        TableColumn("FAILED"),
        TableColumn("CANCELLED", 3),
        TableColumn("RUNS", 2),
        TableColumn("RUN MS", 1),
    ),
    TableColumn("INPUT BYTES", 4),
)

one_tenant = click.argument("name", metavar="NAME")


@click.group()
def tenants() -> None:
    """List tenants, set quotas, suspend tenants, show usage.

    \b
    Examples:
        coatcheck tenants list
        coatcheck tenants set acme --quota submits_per_minute=600 --quota jobs_waiting=10000
        coatcheck tenants suspend acme
        coatcheck tenants usage acme
    """


@tenants.command("list")
@options(JSON_OPTION, *SETTING_OPTIONS)
def list_tenants(as_json: bool, **flags: Any) -> None:
    """List the tenants.

    \b
    Examples:
        coatcheck tenants list
    """

    async def read(authenticator: Authenticator, _: Store) -> list[Tenant]:
        found: list[Tenant] = []
        while True:
            page = await authenticator.tenants(found[-1].name if found else "", PAGE)
            found += page
            if len(page) < PAGE:
                return found

    shown = [tenant_view(tenant) for tenant in with_authenticator(flags, read)]
    if as_json:
        print_json({"tenants": shown})
    else:
        print_table(COLUMNS, [_row(tenant) for tenant in shown])


@tenants.command("set")
@one_tenant
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="NAME=N",
    help=f"One of {', '.join(Quotas._fields)}; NAME= removes the limit. Others do not change.",
)
@options(JSON_OPTION, *SETTING_OPTIONS)
def set_(name: str, quotas: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Create a tenant, or change its quotas.

    \b
    Examples:
        coatcheck tenants set acme
        coatcheck tenants set acme --quota submits_per_minute=600 --quota stored_bytes=
    """
    changes = dict(_read_quota(text) for text in quotas)

    async def put(authenticator: Authenticator, store: Store) -> Tenant:
        tenant = await store.access.get_tenant(name)
        limits = (tenant.quotas if tenant else Quotas())._replace(**changes)
        return (await authenticator.put_tenant(name, quotas=limits, actor=CLI))[0]

    _change(flags, put, as_json)


@tenants.command()
@one_tenant
@click.option("--unpaid", is_flag=True, help="Respond with 402 (payment required) instead of 403.")
@options(JSON_OPTION, *SETTING_OPTIONS)
def suspend(name: str, unpaid: bool, as_json: bool, **flags: Any) -> None:
    """Reject all keys of a tenant immediately. Its submitted jobs continue.

    \b
    Examples:
        coatcheck tenants suspend acme
        coatcheck tenants suspend acme --unpaid
    """
    status = TenantStatus.UNPAID if unpaid else TenantStatus.SUSPENDED
    _set_status(name, status, as_json, flags)


@tenants.command()
@one_tenant
@options(JSON_OPTION, *SETTING_OPTIONS)
def activate(name: str, as_json: bool, **flags: Any) -> None:
    """Accept the keys of a suspended tenant again.

    \b
    Examples:
        coatcheck tenants activate acme
    """
    _set_status(name, TenantStatus.ACTIVE, as_json, flags)


@tenants.command()
@one_tenant
@click.option(
    "--last", default="24h", show_default=True, metavar="DURATION", help="The period to show."
)
@options(JSON_OPTION, *SETTING_OPTIONS)
def usage(name: str, last: str, as_json: bool, **flags: Any) -> None:
    """Show a tenant's usage by hour and kind.

    \b
    Examples:
        coatcheck tenants usage acme --last 30d --json
    """
    until = SystemClock().now() + 1
    since = max(0, until - milliseconds(last, "--last"))

    async def read(authenticator: Authenticator, store: Store) -> list[Usage]:
        return await store.access.list_usage((await authenticator.tenant(name)).name, since, until)

    used_rows = with_authenticator(flags, read)
    shown: list[Mapping[str, Any]] = [usage_view(used) for used in used_rows]
    if as_json:
        print_json({"usage": shown})
        return
    names = ("hour", "kind", "submitted", "succeeded", "failed", "cancelled", "runs", "run_ms")
    print_table(USED, [[used[each] for each in (*names, "input_bytes")] for used in shown])


def _set_status(name: str, status: TenantStatus, as_json: bool, flags: dict[str, Any]) -> None:
    async def put(authenticator: Authenticator, _: Store) -> Tenant:
        await authenticator.tenant(name)  # a misspelled name must not create a tenant
        return (await authenticator.put_tenant(name, status=status, actor=CLI))[0]

    _change(flags, put, as_json)


def _change(flags: dict[str, Any], put: Any, as_json: bool) -> None:
    try:
        shown = tenant_view(with_authenticator(flags, put))
    except InvalidPayload as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(shown)
    else:
        name, status, since, quotas = _row(shown)
        print_pairs([("tenant", name), ("status", status), ("since", since), ("quotas", quotas)])


def _read_quota(text: str) -> tuple[str, int | None]:
    name, equals, value = text.partition("=")
    if name not in Quotas._fields or not equals or not (value.isdecimal() or not value):
        raise click.UsageError(f"write a quota as NAME=N, NAME one of {', '.join(Quotas._fields)}")
    return name, int(value) if value else None


def _row(tenant: Mapping[str, Any]) -> tuple[str, str, str, str]:
    limits = [f"{name}={n}" for name, n in tenant["quotas"].items() if n is not None]
    return tenant["name"], tenant["status"], tenant["created_at"], " ".join(limits)
