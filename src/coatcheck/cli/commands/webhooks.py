"""`coatcheck webhooks`: create and manage webhooks."""

from __future__ import annotations

from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, list_by_default, options
from coatcheck.cli.output.tables import TableColumn, print_pairs, print_table
from coatcheck.cli.output.terminal import out, plain, print_json, say
from coatcheck.cli.output.time_format import relative
from coatcheck.client.calls.webhooks import State
from coatcheck.model.webhook import TYPES, DeliveryState

COLUMNS = (
    TableColumn("WEBHOOK"),
    TableColumn("URL"),
    TableColumn("EVENTS", 2),
    TableColumn("STATUS", 1),
)
DELIVERY_COLUMNS = (
    TableColumn("DELIVERY"),
    TableColumn("EVENT"),
    TableColumn("STATE"),
    TableColumn("WHEN", 1),
    TableColumn("ATTEMPTS", 2),
    TableColumn("LAST", 3),
)

one_webhook = click.argument("webhook_id", metavar="WEBHOOK")

STATES = [str(state) for state in DeliveryState]


@click.group(invoke_without_command=True)
@options(JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def webhooks(ctx: click.Context, /, **given: Any) -> None:
    """Manage webhooks.

    \b
    Examples:
        coatcheck webhooks
        coatcheck webhooks create https://shop.example/jobs --event job.failed
        coatcheck webhooks secret
    """
    list_by_default(ctx, given, _list)


@webhooks.command("list")
@options(JSON_OPTION, *SERVER_OPTIONS)
def list_webhooks(**given: Any) -> None:
    """List the webhooks and their status.

    \b
    Examples:
        coatcheck webhooks list
        coatcheck webhooks list --json | jq '.webhooks[] | select(.enabled | not) | .url'
    """
    _list(**given)


@webhooks.command()
@click.argument("address", metavar="URL")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(TYPES),
    help="An event to send (succeeded, failed, cancelled); repeatable.",
)
@click.option("--description", default="", help="A description.")
@options(JSON_OPTION, *SERVER_OPTIONS)
def create(
    address: str,
    events: tuple[str, ...],
    description: str,
    as_json: bool,
    url: str,
    api_key: str | None,
) -> None:
    """Create a webhook for all jobs; print its id and its secret.

    \b
    Examples:
        coatcheck webhooks create https://shop.example/jobs
        coatcheck webhooks create https://shop.example/jobs --event job.failed --json
    """
    with Api(url, api_key) as api:
        created = api.webhooks.create(address, events=events or None, description=description)
    if as_json:
        print_json(created)
        return
    print_pairs([("webhook", created["id"]), ("secret", created["secret"])])
    say("Store the secret: it is not shown again.")


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def show(webhook_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Show a webhook.

    \b
    Examples:
        coatcheck webhooks show 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    with Api(url, api_key) as api:
        found = api.webhooks.get(webhook_id)
    if as_json:
        print_json(found)
        return
    print_pairs(
        [
            ("webhook", found["id"]),
            ("url", found["url"]),
            ("events", ", ".join(found["events"])),
            ("description", found["description"]),
            ("status", _status(found)),
            ("reason", found["disabled_why"]),
            ("created", f"{found['created_at']} ({relative(found['created_at'])})"),
        ]
    )


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def enable(webhook_id: str, **given: Any) -> None:
    """Enable a webhook.

    \b
    Examples:
        coatcheck webhooks enable 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    _set_enabled(webhook_id, True, **given)


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def disable(webhook_id: str, **given: Any) -> None:
    """Disable a webhook and drop its pending deliveries.

    \b
    Examples:
        coatcheck webhooks disable 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    _set_enabled(webhook_id, False, **given)


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def delete(webhook_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Delete a webhook and its pending deliveries.

    \b
    Examples:
        coatcheck webhooks delete 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    with Api(url, api_key) as api:
        deleted = api.call(api.calls.webhooks.delete(webhook_id))
    if as_json:
        print_json(deleted)
    else:
        out().print(f"webhook {plain(deleted['id'])} is deleted", soft_wrap=True)


@webhooks.command()
@click.argument("webhook_id", metavar="[WEBHOOK]", required=False)
@options(JSON_OPTION, *SERVER_OPTIONS)
def rotate(webhook_id: str | None, as_json: bool, url: str, api_key: str | None) -> None:
    """Create and print a new secret for a webhook; without an id, for the webhooks of single jobs.

    For a day, deliveries are also signed with the previous secret.

    \b
    Examples:
        coatcheck webhooks rotate 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    with Api(url, api_key) as api:
        rotated = api.webhooks.rotate(webhook_id)
    if as_json:
        print_json(rotated)
        return
    click.echo(rotated["secret"])
    say(f"The previous secret is used too until {rotated['previous_until']}.")


@webhooks.command()
@options(JSON_OPTION, *SERVER_OPTIONS)
def secret(as_json: bool, url: str, api_key: str | None) -> None:
    """Print the secret that signs the webhooks of single jobs.

    \b
    Examples:
        coatcheck webhooks secret
    """
    with Api(url, api_key) as api:
        found = api.call(api.calls.webhooks.secret())
    if as_json:
        print_json(found)
    else:
        click.echo(found["secret"])


@webhooks.command()
@click.argument("webhook_id", metavar="[WEBHOOK]", required=False)
@click.option("--job", "job_id", metavar="JOB", help="The deliveries of this job.")
@click.option(
    "--state",
    type=click.Choice([str(state) for state in DeliveryState]),
    help="Only deliveries in this state.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=50, help="The maximum number of deliveries (50)."
)
@options(JSON_OPTION, *SERVER_OPTIONS)
def deliveries(
    webhook_id: str | None,
    job_id: str | None,
    state: State | None,
    limit: int,
    as_json: bool,
    url: str,
    api_key: str | None,
) -> None:
    """List the deliveries of a webhook, or of a job, newest first.

    \b
    Examples:
        coatcheck webhooks deliveries 01J8ZQ4R6T9X2B5N7M1K3C0VDE --state failed
        coatcheck webhooks deliveries --job 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    if (webhook_id is None) == (job_id is None):
        raise click.UsageError("give either a webhook or --job")
    with Api(url, api_key) as api:
        found = api.call(api.calls.webhooks.deliveries(webhook_id, job_id, state, limit))
    if as_json:
        print_json({"deliveries": found})
    else:
        print_table(DELIVERY_COLUMNS, [_delivery_row(delivery) for delivery in found])


@webhooks.command()
@click.argument("what", metavar="DELIVERY|WEBHOOK")
@options(JSON_OPTION, *SERVER_OPTIONS)
def redeliver(what: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Send a delivery again, or all failed deliveries of a webhook.

    The webhook-id of a repeated message does not change.

    \b
    Examples:
        coatcheck webhooks redeliver 01J8ZQ4R6T9X2B5N7M1K3C0VDE.3
        coatcheck webhooks redeliver 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    with Api(url, api_key) as api:
        if "." in what:
            sent, count = api.webhooks.redeliver(what), 1
        else:
            count = api.webhooks.redeliver_failed(what)
            sent = {"deliveries": count}
    if as_json:
        print_json(sent)
    else:
        out().print(f"sent again: {count}", soft_wrap=True)


def _list(*, as_json: bool, url: str, api_key: str | None) -> None:
    with Api(url, api_key) as api:
        found = api.webhooks.list()
    if as_json:
        print_json({"webhooks": found})
        return
    rows = [(each["id"], each["url"], " ".join(each["events"]), _status(each)) for each in found]
    print_table(COLUMNS, rows)


def _set_enabled(
    webhook_id: str, enabled: bool, *, as_json: bool, url: str, api_key: str | None
) -> None:
    with Api(url, api_key) as api:
        found = api.call(api.calls.webhooks.set_enabled(webhook_id, enabled))
    if as_json:
        print_json(found)
    else:
        out().print(f"webhook {plain(found['id'])} is {_status(found)}", soft_wrap=True)


def _status(webhook: dict[str, Any]) -> str:
    if not webhook["enabled"]:
        return "disabled"
    failing = webhook["failing_since"]
    return "enabled" if failing is None else f"failing since {relative(failing)}"


def _delivery_row(delivery: dict[str, Any]) -> tuple[object, ...]:
    last = delivery["tries"][-1] if delivery["tries"] else {"status": None, "error": None}
    outcome = last["error"] or last["status"] or ""
    return (
        *(delivery["id"], delivery["type"], delivery["state"], relative(delivery["timestamp"])),
        *(delivery["attempts"], outcome),
    )
