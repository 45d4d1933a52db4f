"""A server that runs with secrets, and everything that could be read of it afterwards."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.processes import run_to_end, running
from tests.hardening.conftest import APP
from tests.hardening.raw_http import ask, request, submit

AS_JSON = b"Content-Type: application/json"
HOOK = {"url": "http://127.0.0.1:9/hook", "events": ["job.succeeded"]}


@dataclass
class Life:
    """Everything a server wrote, and the secrets that it knew."""

    folder: Path
    hidden: dict[str, str]
    said: dict[str, str] = field(default_factory=dict)

    def leaks(self) -> list[str]:
        """Return where a secret can be read."""
        return [
            f"{name} in {place}"
            for name, secret in self.hidden.items()
            for place, text in self.said.items()
            if secret in text
        ]


# Possible configurations: everything, only a pepper, nothing.
WAYS = (("encryption_keys", "pepper", "webhook_secret"), ("pepper",))


def made_up(names: Iterable[str]) -> dict[str, str]:
    """Return unique secrets, by the setting they are for."""
    secret = {
        "encryption_keys": f"k1={base64.b64encode(secrets.token_bytes(32)).decode()}",
        "webhook_secret": f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}",
        "pepper": secrets.token_hex(24),
    }
    return {name: secret[name] for name in names}


def live(folder: Path, hidden: dict[str, str], **settings: str) -> Life:
    """Serve with these secrets, use each of them correctly and incorrectly, and stop."""
    named = {f"COATCHECK_{name.upper()}": text for name, text in {**hidden, **settings}.items()}
    named |= {"COATCHECK_LOG_LEVEL": "debug", "COATCHECK_EGRESS_ALLOW": "127.0.0.1"}
    made = run_to_end("keys", "create", "--scope", "admin", "--json", folder=folder, **named)
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)["key"]
    life = Life(folder, {**hidden, "key": key})
    with running("serve", APP, "--port", "0", folder=folder, **named) as server:
        server.stderr.wait_for("worker started")
        url, door = server.url(), b"Authorization: Bearer " + key.encode()
        shown = _ask(url, "POST", "/v1/webhooks", HOOK, door)
        life.hidden["secret of an endpoint"] = shown["secret"]
        other = _ask(url, "POST", "/v1/keys", {"tenant": "acme", "scopes": ["jobs:read"]}, door)
        life.hidden["key of another"] = other["key"]
        own = ask(url, request("GET", "/v1/webhooks/secret", None, door))
        life.hidden["secret of jobs' own endpoints"] = own.json()["secret"]
        job = ask(url, submit("echo", "hello", door, b"Prefer: wait=30", webhook=HOOK))
        assert job.json()["state"] == "succeeded", job.body
        ask(url, submit("say", "goodbye", door, b"Prefer: wait=30"))
        life.said["answers"] = "\n".join(_wrong_calls(url, key))
        life.said["metrics"] = ask(url, request("GET", "/metrics", None, door)).body.decode()
        assert "coatcheck_" in life.said["metrics"]
        server.stderr.wait_for("webhook not delivered")
    life.said["stderr"] = "\n".join(server.stderr.until_end())
    life.said["stdout"] = "\n".join(server.stdout.until_end())
    doctor = run_to_end("doctor", folder=folder, **named)
    life.said["doctor"] = doctor.stdout + doctor.stderr
    listed = run_to_end("keys", "list", "--json", folder=folder, **named)
    life.said["list of keys"] = listed.stdout + listed.stderr
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            life.said[path.name] = path.read_bytes().decode("latin-1")
    return life


def _ask(url: str, method: str, path: str, body: Any, door: bytes) -> Any:
    answer = ask(url, request(method, path, json.dumps(body).encode(), AS_JSON, door))
    assert answer.status in (200, 201), answer.body
    return answer.json()


def _wrong_calls(url: str, key: str) -> list[str]:
    """Return the responses to mistakes that contain the key."""
    door = b"Authorization: Bearer " + key.encode()
    mistakes = [
        request("GET", "/v1/jobs", None, b"X-Api-Key: " + key.encode() + b"x"),
        request("GET", "/v1/jobs", None, b"Authorization: Basic " + key.encode()),
        request("GET", "/v1/jobs?limit=0", None, door),
        request("POST", "/v1/jobs", b"{", AS_JSON, door),
        request("GET", "/v1/keys", None, door),
        request("GET", "/v1/webhooks", None, door),
        request("GET", "/v1/nothing", None, door),
    ]
    answers = [ask(url, mistake) for mistake in mistakes]
    return [(answer.head + answer.body).decode("latin-1") for answer in answers]
