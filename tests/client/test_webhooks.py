"""Webhooks through both clients."""

from __future__ import annotations

import pytest

from coatcheck import Client, InvalidPayload, NotFound

URL = "https://93.184.216.34/hook"


def test_webhook_life_cycle(client: Client) -> None:
    made = client.webhooks.create(URL, events=["job.failed"], description="the shop")
    secret = made.pop("secret")
    assert (made["events"], made["description"]) == (["job.failed"], "the shop")
    assert client.webhooks.get(made["id"]) == made
    assert made in client.webhooks.list()
    assert client.webhooks.change(made["id"], f"{URL}/2")["url"] == f"{URL}/2"
    assert client.webhooks.disable(made["id"])["enabled"] is False
    assert client.webhooks.enable(made["id"])["enabled"] is True
    assert client.webhooks.rotate(made["id"])["secret"] != secret
    assert client.webhooks.deliveries(made["id"]) == []
    assert client.webhooks.redeliver_failed(made["id"]) == 0
    client.webhooks.delete(made["id"])
    with pytest.raises(NotFound):
        client.webhooks.get(made["id"])


def test_secret_for_webhooks_of_single_jobs(client: Client) -> None:
    client.webhooks.rotate()
    assert client.webhooks.secret().startswith("whsec_")


def test_job_with_its_own_webhook(client: Client) -> None:
    job = client.submit("echo", 1, webhook={"url": URL, "events": ["job.running", "job.succeeded"]})
    job.result(60)
    told = client.webhooks.deliveries(job_id=job.id)
    assert [each["type"] for each in told] == ["job.succeeded", "job.running"]
    assert client.webhooks.redeliver(told[0]["id"])["id"] == told[0]["id"]
    assert client.webhooks.deliveries(job_id=job.id, state="delivered") == []


def test_invalid_webhooks_raise(client: Client) -> None:
    with pytest.raises(InvalidPayload):
        client.webhooks.create("http://127.0.0.1/")
    with pytest.raises(InvalidPayload):
        client.submit("echo", 1, webhook="http://localhost/")
    with pytest.raises(ValueError, match="either"):
        client.webhooks.deliveries()
