"""`coatcheck keys`: API keys. Works on the database, so that a first key can be created."""

from __future__ import annotations

from typing import Any

import click

from coatcheck.cli.admin import with_authenticator
from coatcheck.cli.options import JSON_OPTION, SETTING_OPTIONS, options
from coatcheck.cli.output.tables import TableColumn, print_table
from coatcheck.cli.output.terminal import print_json
from coatcheck.clock import SystemClock
from coatcheck.errors import InvalidPayload
from coatcheck.http.access.handlers import key_view
from coatcheck.model.access import OPERATOR, ApiKey, Scope
from coatcheck.model.audit import CLI
from coatcheck.model.duration import milliseconds

PAGE = 200
DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.CANCEL)
COLUMNS = (
    TableColumn("ID"),
    TableColumn("TENANT"),
    TableColumn("SCOPES"),
    TableColumn("CREATED", 2),
    TableColumn("EXPIRES", 1),
    TableColumn("REVOKED"),
    TableColumn("LAST USED", 2),
    TableColumn("NOTE", 3),
)


@click.group()
def keys() -> None:
    """Create, list and revoke API keys.

    \b
    Examples:
        coatcheck keys create --tenant default --scope admin
        coatcheck keys list
        coatcheck keys revoke 0f4a91c2d37b
    """


@keys.command()
@click.option(
    "--tenant",
    default=OPERATOR,
    show_default=True,
    help="The key's tenant; created if it does not exist.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="jobs:read, jobs:write, jobs:cancel (these three by default), jobs:work or admin; "
    "jobs:write:KIND for one kind. Repeatable.",
)
@click.option("--note", default="", help="A note for `keys list`.")
@click.option(
    "--expires-in", metavar="DURATION", help="The lifetime, such as 90d; unlimited by default."
)
@options(JSON_OPTION, *SETTING_OPTIONS)
def create(
    tenant: str,
    scopes: tuple[str, ...],
    note: str,
    expires_in: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Create a key and print it. It cannot be shown again.

    \b
    Examples:
        coatcheck keys create --tenant default --scope admin
        coatcheck keys create --tenant acme --scope jobs:read --scope jobs:write:render --json
        export COATCHECK_API_KEY=$(coatcheck keys create --tenant acme --json | jq -r .key)
    """
    expires_at = None
    if expires_in is not None:
        expires_at = SystemClock().now() + milliseconds(expires_in, "--expires-in")
    try:
        key, shown = with_authenticator(
            flags,
            lambda authenticator, _: authenticator.create_key(
                tenant, scopes or DEFAULT_SCOPES, note=note, expires_at=expires_at, actor=CLI
            ),
        )
    except InvalidPayload as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json({"id": key.id, "key": shown, "tenant": key.tenant, "scopes": list(key.scopes)})
        return
    click.echo(shown)
    click.echo(
        f"for tenant {tenant}: {', '.join(key.scopes)}. The key is not shown again.", err=True
    )


@keys.command("list")
@click.option("--tenant", help="Only this tenant's keys.")
@options(JSON_OPTION, *SETTING_OPTIONS)
def list_keys(tenant: str | None, as_json: bool, **flags: Any) -> None:
    """List all keys, including revoked ones.

    \b
    Examples:
        coatcheck keys list
        coatcheck keys list --tenant acme --json | jq -r '.keys[] | select(.revoked_at == null).id'
    """

    async def read(authenticator: Any, _: Any) -> list[ApiKey]:
        found: list[ApiKey] = []
        while True:
            page = await authenticator.keys(tenant, found[-1].id if found else "", PAGE)
            found += page
            if len(page) < PAGE:
                return found

    shown = [key_view(key) for key in with_authenticator(flags, read)]
    if as_json:
        print_json({"keys": shown})
        return
    rows = [
        (
            *(key["id"], key["tenant"], " ".join(key["scopes"]), key["created_at"]),
            *(key["expires_at"] or "", key["revoked_at"] or "", key["last_used_at"] or ""),
            key["note"],
        )
        for key in shown
    ]
    print_table(COLUMNS, rows)


@keys.command()
@click.argument("key_id", metavar="ID")
@options(JSON_OPTION, *SETTING_OPTIONS)
def revoke(key_id: str, as_json: bool, **flags: Any) -> None:
    """Revoke a key permanently. Every server rejects it immediately.

    \b
    Examples:
        coatcheck keys revoke 0f4a91c2d37b
    """
    key = with_authenticator(
        flags, lambda authenticator, _: authenticator.revoke_key(key_id, actor=CLI)
    )
    if as_json:
        print_json(key_view(key))
        return
    click.echo(f"key {key.id} of tenant {key.tenant} is revoked")
