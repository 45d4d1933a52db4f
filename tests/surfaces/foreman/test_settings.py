"""Foreman's settings, and names of models."""

from __future__ import annotations

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.http.surfaces.base import SurfaceDisabled
from coatcheck.model.names import is_name
from coatcheck.surfaces.foreman.call import canonical_name, queue_of
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.surface import create_if_configured

HERE = {"FOREMAN_OLLAMA_URL": "http://127.0.0.1:11434"}


def test_defaults_match_the_document() -> None:  # F14
    found = ForemanSettings.read(HERE)
    assert found == ForemanSettings(targets=("http://127.0.0.1:11434",))
    assert (found.job_ttl_s, found.max_attempts, found.poll_s) == (86_400, 3, 30)
    assert (found.keep_alive, found.token, found.slots) == (-1, "", 1)


def test_every_setting_is_read() -> None:  # F14
    given = {
        "FOREMAN_OLLAMA_URL": " http://a:1/ , https://b.example/ollama ",
        "FOREMAN_OLLAMA_TOKEN": "sesame",
        "FOREMAN_JOB_TTL": "2h",
        "FOREMAN_MAX_ATTEMPTS": "7",
        "FOREMAN_POLL_INTERVAL": "1.5",
        "FOREMAN_KEEP_ALIVE": "10m",
        "FOREMAN_WEBHOOK_SECRET": "hush",
        "FOREMAN_ON_HANGUP": "cancel",
        "FOREMAN_PER_TARGET": "2",
        "FOREMAN_HEAD_START": "1m",
        "FOREMAN_JOB_TIMEOUT": "20m",
        "FOREMAN_MAX_BODY": "1MB",
    }
    found = ForemanSettings.read(given)
    assert found.targets == ("http://a:1", "https://b.example/ollama")
    assert (found.job_ttl_s, found.max_attempts, found.poll_s) == (7200, 7, 1.5)
    assert (found.keep_alive, found.cancels_on_hangup, found.slots) == ("10m", True, 4)
    assert (found.head_start_s, found.timeout_s, found.max_body) == (60, 1200, 1_000_000)
    assert "sesame" not in repr(found)
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OLLAMA_URL", ""),
        ("OLLAMA_URL", "laptop:11434"),
        ("OLLAMA_URL", "ftp://laptop"),
        ("OLLAMA_URL", "http://laptop:x"),
        ("OLLAMA_URL", "http://me:secret@laptop"),
        ("OLLAMA_URL", "http://a,http://a/"),
        ("OLLAMA_TOKEN", "a\nb"),
        ("JOB_TTL", "soon"),
        ("JOB_TTL", "0"),
        ("MAX_ATTEMPTS", "0"),
        ("POLL_INTERVAL", "-1"),
        ("KEEP_ALIVE", "long"),
        ("ON_HANGUP", "cry"),
        ("PER_TARGET", "none"),
        ("MAX_BODY", "huge"),
    ],
)
def test_error_names_the_wrong_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"FOREMAN_{name}") as raised:
        ForemanSettings.read({**HERE, f"FOREMAN_{name}": value})
    assert "secret" not in str(raised.value)


def test_surface_is_disabled_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOREMAN_OLLAMA_URL", raising=False)
    with pytest.raises(SurfaceDisabled, match="FOREMAN_OLLAMA_URL"):
        create_if_configured()
    monkeypatch.setenv("FOREMAN_OLLAMA_URL", "http://127.0.0.1:1")
    assert create_if_configured().name == "foreman"


def test_canonical_model_name() -> None:
    assert canonical_name("Llama3") == canonical_name("llama3:latest") == "llama3:latest"
    assert canonical_name("host:5000/team/llama3") == "host:5000/team/llama3:latest"


def test_every_model_has_its_own_queue() -> None:
    names = ["llama3", "llama3:8b", "hf.co/a/b:Q4_K", "hf.co/a-b:Q4_K", "x" * 200, "x" * 199, "é"]
    queues = [queue_of(name) for name in names]
    assert len(set(queues)) == len(names)
    assert all(map(is_name, queues))
    assert queues[0] == queue_of("llama3:latest") == "foreman.llama3:latest"
