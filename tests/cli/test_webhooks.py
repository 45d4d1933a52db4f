"""`coatcheck webhooks`, as text and as JSON."""

from __future__ import annotations

import re

import pytest

from coatcheck import Client, NotFound
from tests.cli.shell import Shell

URL = "https://93.184.216.34/hook"


@pytest.fixture
def webhook(client: Client) -> str:
    return str(client.webhooks.create(URL, events=["job.failed"])["id"])


def test_webhook_is_created_and_its_secret_is_printed_once(shell: Shell, client: Client) -> None:
    made = shell.run("webhooks", "create", URL, "--event", "job.failed", "--description", "shop")
    found = re.fullmatch(r"webhook +(\w{26})\nsecret +(whsec_\S+)\n", made.stdout)
    assert found is not None, made.stdout
    assert "not shown again" in made.stderr
    shown = client.webhooks.get(found[1])
    assert (shown["url"], shown["events"], shown["description"]) == (URL, ["job.failed"], "shop")


def test_webhooks_are_listed_and_shown(shell: Shell, webhook: str) -> None:
    shown = shell.json("webhooks", "show", webhook)
    assert re.search(
        r"^status +enabled$", shell.run("webhooks", "show", webhook).stdout, re.MULTILINE
    )
    assert shown in shell.json("webhooks", "list")["webhooks"]
    [row] = [line for line in shell.run("webhooks").stdout.splitlines() if webhook in line]
    assert URL in row


def test_webhook_is_disabled_enabled_and_deleted(
    shell: Shell, client: Client, webhook: str
) -> None:
    assert shell.run("webhooks", "disable", webhook).stdout == f"webhook {webhook} is disabled\n"
    assert shell.run("webhooks", "enable", webhook).stdout == f"webhook {webhook} is enabled\n"
    assert shell.run("webhooks", "rotate", webhook).stdout.startswith("whsec_")
    assert shell.run("webhooks", "redeliver", webhook).stdout == "sent again: 0\n"
    assert shell.run("webhooks", "delete", webhook).stdout == f"webhook {webhook} is deleted\n"
    with pytest.raises(NotFound):
        client.webhooks.get(webhook)


def test_job_with_its_own_webhook(shell: Shell) -> None:
    job_id = shell.run("submit", "echo", "1", "--webhook", URL).stdout.strip()
    shell.run("watch", job_id)
    [told] = shell.json("webhooks", "deliveries", "--job", job_id)["deliveries"]
    assert told["type"] == "job.succeeded"
    [row] = shell.run("webhooks", "deliveries", "--job", job_id).stdout.splitlines()[1:]
    assert told["id"] in row
    assert shell.run("webhooks", "redeliver", told["id"]).stdout == "sent again: 1\n"


def test_secret_for_webhooks_of_single_jobs(shell: Shell, client: Client) -> None:
    assert shell.run("webhooks", "secret").stdout.strip() == client.webhooks.secret()


def test_invalid_webhooks_are_rejected(shell: Shell) -> None:
    denied = shell.run("webhooks", "create", "http://10.0.0.1/")
    assert denied.returncode != 0 and "it is not public" in denied.stderr
    assert shell.run("webhooks", "deliveries").returncode == 2
    assert shell.run("webhooks", "create", URL, "--event", "job.sung").returncode == 2
