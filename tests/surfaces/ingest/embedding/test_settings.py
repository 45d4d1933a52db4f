"""The operator's settings for embedding."""

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings


def test_offline_is_the_default() -> None:
    assert EmbeddingSettings.read({}) == EmbeddingSettings("offline", "", "", "")


def test_ollama_has_a_default_url() -> None:
    settings = EmbeddingSettings.read(
        {"INGEST_EMBEDDER": "Ollama", "INGEST_EMBED_MODEL": "nomic-embed-text"}
    )
    assert settings.url == "http://127.0.0.1:11434"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"INGEST_EMBEDDER": "magic"}, "INGEST_EMBEDDER must be one of offline, ollama, openai"),
        ({"INGEST_EMBEDDER": "ollama"}, "INGEST_EMBED_MODEL"),
        ({"INGEST_EMBEDDER": "openai", "INGEST_EMBED_MODEL": "m"}, "INGEST_EMBED_URL"),
        (
            {
                "INGEST_EMBEDDER": "openai",
                "INGEST_EMBED_MODEL": "m",
                "INGEST_EMBED_URL": "ftp://u:hunter2@host",
            },
            "INGEST_EMBED_URL",
        ),
        ({"INGEST_EMBED_URL": "http://host"}, "INGEST_EMBEDDER"),
        ({"INGEST_EMBED_MODEL": "m"}, "INGEST_EMBEDDER"),
    ],
)
def test_error_names_the_invalid_setting(environment: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as wrong:
        EmbeddingSettings.read(environment)
    assert "hunter2" not in str(wrong.value)


def test_key_is_hidden_in_repr() -> None:
    settings = EmbeddingSettings("openai", "http://host", "m", "s3cret")
    assert "s3cret" not in repr(settings)
    assert settings.secret == "s3cret"
