"""A call for a model, as the input of a job: what was asked, and what has to be loaded for it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator
from starlette.exceptions import HTTPException

from coatcheck.relay.call import StoredCall
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.upstream_paths import LONGEST_MODEL, QUEUED

STATE_WEBHOOK = "state_webhook_url"


class ModelCall(StoredCall):
    """A stored call, the model it is for, and the options that model is loaded with.

    Whichever door a job comes in by, it asks a model something, and nothing else of a target: no
    other calls are made with the operator's token.
    """

    model: str = Field(min_length=1, max_length=LONGEST_MODEL)
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("path")
    @classmethod
    def _asks_a_model(cls, path: str) -> str:
        if path not in QUEUED:
            raise ValueError(f"it is one of {', '.join(QUEUED)}")
        return path

    @field_validator("method")
    @classmethod
    def _is_a_post(cls, method: str) -> str:
        if method != "POST":
            raise ValueError("it is POST")
        return method


def model_in(body: Any) -> str:
    """Return the model that a request names; raises the 400 that Ollama answers without one."""
    if not isinstance(body, dict):
        raise HTTPException(400, "send a JSON object")
    model = body.get("model")
    if model is None or model == "":
        raise HTTPException(400, "model is required")
    if not isinstance(model, str) or len(model) > LONGEST_MODEL or not model.isprintable():
        raise HTTPException(400, "invalid model name")
    return model


def options_in(body: dict[str, Any]) -> dict[str, Any]:
    """Return the options that say how a model is loaded."""
    given = body.get("options")
    return given if isinstance(given, dict) else {}


def as_sent(body: dict[str, Any], path: str, settings: ForemanSettings) -> dict[str, Any]:
    """Return a body as it is sent on: without what was for us, and with how long the model is to
    stay where the caller does not say.
    """
    sent = {name: value for name, value in body.items() if name != STATE_WEBHOOK}
    if path.startswith("/api/") and sent.get("keep_alive") is None:
        sent["keep_alive"] = settings.keep_alive
    return sent
