"""Submit: the server answers with an id once the job is on disk."""

from __future__ import annotations

import pytest

from coatcheck import Client, InvalidPayload, UnknownKind


def test_submit_returns_a_handle_with_the_job_id(client: Client) -> None:
    handle = client.submit("greet", "ada")

    assert len(handle.id) == 26  # a ULID
    assert handle.result() == "hello ada"


def test_the_same_idempotency_key_submits_once(client: Client) -> None:
    first = client.submit("greet", "ada", idempotency_key="order-17")
    second = client.submit("greet", "ada", idempotency_key="order-17")

    assert first.id == second.id


def test_input_that_does_not_fit_the_annotation_is_rejected(client: Client) -> None:
    with pytest.raises(InvalidPayload):
        client.submit("greet", {"not": "a string"})


def test_an_unknown_kind_is_rejected(client: Client) -> None:
    with pytest.raises(UnknownKind):
        client.submit("gret", "ada")
