"""`coatcheck audit`: the audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from coatcheck.cli.admin import with_authenticator
from coatcheck.cli.options import JSON_OPTION, SETTING_OPTIONS, options
from coatcheck.cli.output.tables import TableColumn, print_table
from coatcheck.cli.output.terminal import print_json
from coatcheck.clock import SystemClock
from coatcheck.engine.auth import Authenticator
from coatcheck.http.access.audit import entry_view
from coatcheck.ids import first_ulid_at
from coatcheck.model.audit import Action, AuditEntry, Resource
from coatcheck.model.duration import milliseconds
from coatcheck.store.audit import AuditFilter
from coatcheck.store.base import Store

PAGE = 200
ACTIONS = [str(action) for action in Action]
RESOURCES = [str(resource) for resource in Resource]
COLUMNS = (
    *(
        TableColumn("AT"),
        TableColumn("ACTOR"),
        TableColumn("ACTION"),
        TableColumn("RESOURCE"),
        TableColumn("TENANT", 1),
    ),
    TableColumn("DETAIL", 2),
)


@click.command()
@click.option("--tenant", help="Only this tenant's resources.")
@click.option("--actor", help="Only changes by this key, or by anonymous, cli or app.")
@click.option("--action", type=click.Choice(ACTIONS), help="Only this action.")
@click.option(
    "--resource",
    type=click.Choice(RESOURCES),
    help="Only this type of resource.",
)
@click.option(
    "--last", default="30d", show_default=True, metavar="DURATION", help="The period to list."
)
@click.option(
    "--limit",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="The maximum number of entries.",
)
@options(JSON_OPTION, *SETTING_OPTIONS)
def audit(
    tenant: str | None,
    actor: str | None,
    action: str | None,
    resource: str | None,
    last: str,
    limit: int,
    as_json: bool,
    **flags: Any,
) -> None:
    """List changes to keys, tenants, webhooks, schedules and tasks, newest first.

    The actor is the id of an API key, cli for this command line, anonymous for a server without
    keys, or app for an app that declares schedules.

    \b
    Examples:
        coatcheck audit
        coatcheck audit --tenant acme --resource key --last 90d
        coatcheck audit --json | jq -r '.entries[] | [.at, .actor, .action] | @tsv'
    """
    since = first_ulid_at(SystemClock().now() - milliseconds(last, "--last"))
    which = AuditFilter(tenant, actor, action, resource, since=since)

    async def read(_: Authenticator, store: Store) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        while len(found) < limit:
            size = min(PAGE, limit - len(found))
            before = found[-1].id if found else None
            page = await store.audit.list_entries(which._replace(before=before, limit=size))
            found += page
            if len(page) < size:
                break
        return found

    shown = [entry_view(entry) for entry in with_authenticator(flags, read)]
    if as_json:
        print_json({"entries": shown})
    else:
        print_table(COLUMNS, [_row(entry) for entry in shown])


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    detail = json.dumps(entry["detail"]) if entry["detail"] else ""
    named = (entry["at"], entry["actor"], entry["action"], entry["resource_id"])
    return (*named, entry["tenant"], detail)
