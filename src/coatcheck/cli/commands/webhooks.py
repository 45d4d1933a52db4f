"""`coatcheck webhooks`."""

from __future__ import annotations

from typing import Any

import click

from coatcheck.cli.api import Api
from coatcheck.cli.options import JSON_OPTION, SERVER_OPTIONS, list_or_go_on, options
from coatcheck.cli.output.tables import TableColumn, print_pairs, print_table
from coatcheck.cli.output.terminal import out, plain, print_json, say
from coatcheck.cli.output.time_format import relative
from coatcheck.client.calls.webhooks import State
from coatcheck.model.webhook import TYPES, DeliveryState

COLUMNS = (
    TableColumn("WEBHOOK"),
    TableColumn("URL"),
    TableColumn("EVENTS", 2),
    TableColumn("STANDS", 1),
)
DELIVERY_COLUMNS = (
    TableColumn("DELIVERY"),
    TableColumn("EVENT"),
    TableColumn("STATE"),
    TableColumn("WHEN", 1),
    TableColumn("TRIES", 2),
    TableColumn("LAST", 3),
)

one_webhook = click.argument("webhook_id", metavar="WEBHOOK")

STATES = [str(state) for state in DeliveryState]


@click.group(invoke_without_command=True)
@options(JSON_OPTION, *SERVER_OPTIONS)
@click.pass_context
def webhooks(ctx: click.Context, /, **given: Any) -> None:
    """Have other systems called about jobs.

    \b
    Examples:
        coatcheck webhooks
        coatcheck webhooks create https://shop.example/jobs --event job.failed
        coatcheck webhooks secret
    """
    list_or_go_on(ctx, given, _list)


@webhooks.command("list")
@options(JSON_OPTION, *SERVER_OPTIONS)
def list_webhooks(**given: Any) -> None:
    """List the webhooks, and how they stand.

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
    help="What to be told (the ends of jobs); may be given several times.",
)
@click.option("--description", default="", help="What it is for.")
@options(JSON_OPTION, *SERVER_OPTIONS)
def create(
    address: str,
    events: tuple[str, ...],
    description: str,
    as_json: bool,
    url: str,
    api_key: str | None,
) -> None:
    """Have a URL called about all jobs; prints its id, and its secret this once.

    \b
    Examples:
        coatcheck webhooks create https://shop.example/jobs
        coatcheck webhooks create https://shop.example/jobs --event job.failed --json
    """
    with Api(url, api_key) as api:
        made = api.webhooks.create(address, events=events or None, description=description)
    if as_json:
        print_json(made)
        return
    print_pairs([("webhook", made["id"]), ("secret", made["secret"])])
    say("Keep the secret: it is not shown again.")


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
            ("stands", _standing(found)),
            ("why", found["disabled_why"]),
            ("created", f"{found['created_at']} ({relative(found['created_at'])})"),
        ]
    )


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def enable(webhook_id: str, **given: Any) -> None:
    """Let a webhook be called again.

    \b
    Examples:
        coatcheck webhooks enable 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    _set_enabled(webhook_id, True, **given)


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def disable(webhook_id: str, **given: Any) -> None:
    """Stop calling a webhook; what is pending for it is called off.

    \b
    Examples:
        coatcheck webhooks disable 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    _set_enabled(webhook_id, False, **given)


@webhooks.command()
@one_webhook
@options(JSON_OPTION, *SERVER_OPTIONS)
def delete(webhook_id: str, as_json: bool, url: str, api_key: str | None) -> None:
    """Delete a webhook; what is pending for it is called off.

    \b
    Examples:
        coatcheck webhooks delete 01J8ZQ4R6T9X2B5N7M1K3C0VDE
    """
    with Api(url, api_key) as api:
        gone = api.call(api.calls.webhooks.delete(webhook_id))
    if as_json:
        print_json(gone)
    else:
        out().print(f"webhook {plain(gone['id'])} is deleted", soft_wrap=True)


@webhooks.command()
@click.argument("webhook_id", metavar="[WEBHOOK]", required=False)
@options(JSON_OPTION, *SERVER_OPTIONS)
def rotate(webhook_id: str | None, as_json: bool, url: str, api_key: str | None) -> None:
    """Print a new secret for a webhook, or without one for jobs' own.

    For a day messages are signed with the one before as well.

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
    say(f"The one before is used beside it until {rotated['previous_until']}.")


@webhooks.command()
@options(JSON_OPTION, *SERVER_OPTIONS)
def secret(as_json: bool, url: str, api_key: str | None) -> None:
    """Print what calls to jobs' own webhooks are signed with.

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
@click.option("--job", "job_id", metavar="JOB", help="Of a job, whoever was told.")
@click.option(
    "--state",
    type=click.Choice([str(state) for state in DeliveryState]),
    help="Only those in this state.",
)
@click.option("--limit", type=click.IntRange(1), default=50, help="How many (50).")
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
    """List what a webhook was told, or who was told of a job, newest first.

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
    """Send a delivery again, or all that a webhook has not taken.

    A receiver knows a message that comes again by its webhook-id.

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
    rows = [(each["id"], each["url"], " ".join(each["events"]), _standing(each)) for each in found]
    print_table(COLUMNS, rows)


def _set_enabled(
    webhook_id: str, enabled: bool, *, as_json: bool, url: str, api_key: str | None
) -> None:
    with Api(url, api_key) as api:
        found = api.call(api.calls.webhooks.set_enabled(webhook_id, enabled))
    if as_json:
        print_json(found)
    else:
        out().print(f"webhook {plain(found['id'])} is {_standing(found)}", soft_wrap=True)


def _standing(webhook: dict[str, Any]) -> str:
    if not webhook["enabled"]:
        return "disabled"
    failing = webhook["failing_since"]
    return "enabled" if failing is None else f"failing since {relative(failing)}"


def _delivery_row(delivery: dict[str, Any]) -> tuple[object, ...]:
    last = delivery["tries"][-1] if delivery["tries"] else {"status": None, "error": None}
    said = last["error"] or last["status"] or ""
    return (
        *(delivery["id"], delivery["type"], delivery["state"], relative(delivery["timestamp"])),
        *(delivery["attempts"], said),
    )
