"""A model call: the input of a job, the names of models, and what is read from a request's body."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from pydantic import Field, field_validator
from starlette.exceptions import HTTPException

from coatcheck.relay.call import StoredCall
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.upstream_paths import MAX_MODEL_NAME, QUEUED

STATE_WEBHOOK = "state_webhook_url"
QUEUE_PREFIX = "foreman."
_DEFAULT_TAG = ":latest"
_NOT_IN_QUEUE_NAME = re.compile(r"[^a-z0-9_.:-]+")
_MAX_QUEUE_NAME = 80
_DIGEST = 8


class ModelCall(StoredCall):
    """A stored call, its model, and the options with which the model is loaded.

    However a job is submitted, it can only call a model. No other call is made with the operator's
    token.
    """

    model: str = Field(min_length=1, max_length=MAX_MODEL_NAME)
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        if path not in QUEUED:
            raise ValueError(f"must be one of {', '.join(QUEUED)}")
        return path

    @field_validator("method")
    @classmethod
    def _check_method(cls, method: str) -> str:
        if method != "POST":
            raise ValueError("must be POST")
        return method


def canonical_name(model: str) -> str:
    """Return the canonical name of a model, as Ollama compares them: in lower case, and with the
    tag `latest` if it has none.
    """
    name = model.strip().lower()
    last = name.rpartition("/")[2]
    return name if ":" in last else name + _DEFAULT_TAG


def queue_of(model: str) -> str:
    """Return the queue of a model's jobs. No two models share a queue."""
    name = canonical_name(model)
    plain = _NOT_IN_QUEUE_NAME.sub("-", name)
    if plain == name and len(plain) <= _MAX_QUEUE_NAME:
        return QUEUE_PREFIX + plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{QUEUE_PREFIX}{plain[:_MAX_QUEUE_NAME]}-{digest}"


def read_model(body: Any) -> str:
    """Return the model that a request names; raises a 400 with Ollama's texts."""
    if not isinstance(body, dict):
        raise HTTPException(400, "send a JSON object")
    model = body.get("model")
    if model is None or model == "":
        raise HTTPException(400, "model is required")
    if not isinstance(model, str) or len(model) > MAX_MODEL_NAME or not model.isprintable():
        raise HTTPException(400, "invalid model name")
    return model


def read_options(body: dict[str, Any]) -> dict[str, Any]:
    """Return the options with which a model is loaded."""
    options = body.get("options")
    return options if isinstance(options, dict) else {}


def upstream_body(body: dict[str, Any], path: str, settings: ForemanSettings) -> dict[str, Any]:
    """Return a body as it is sent to a target: without our own fields, and with the configured
    `keep_alive` if the caller sets none.
    """
    sent = {name: value for name, value in body.items() if name != STATE_WEBHOOK}
    if path.startswith("/api/") and sent.get("keep_alive") is None:
        sent["keep_alive"] = settings.keep_alive
    return sent
