"""The operator's settings for embedding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import ConfigurationError

EMBEDDER = "INGEST_EMBEDDER"
URL = "INGEST_EMBED_URL"
MODEL = "INGEST_EMBED_MODEL"
KEY = "INGEST_EMBED_KEY"
EMBEDDERS = ("offline", "ollama", "openai")
# Ollama's default URL; an OpenAI-compatible endpoint has none.
OLLAMA_URL = "http://127.0.0.1:11434"


@dataclass(frozen=True)
class EmbeddingSettings:
    """The embedding settings; each field is named after its environment variable.

    The operator chose the URL, so the egress policy does not apply to it.
    """

    # INGEST_EMBEDDER: offline (the local model), ollama, or openai for any compatible endpoint.
    embedder: str = "offline"
    # INGEST_EMBED_URL: the base URL, before /api/embed (ollama) or /v1/embeddings (openai).
    url: str = ""
    # INGEST_EMBED_MODEL: the endpoint's model.
    model: str = ""
    # INGEST_EMBED_KEY: the endpoint's key, or a reference to it: file:/run/secrets/key.
    key: str = field(default="", repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> EmbeddingSettings:
        """Read the settings; raise ConfigurationError naming the invalid one."""
        embedder = environment.get(EMBEDDER, "").strip().lower() or cls.embedder
        if embedder not in EMBEDDERS:
            raise ConfigurationError(
                f"{EMBEDDER} must be one of {', '.join(EMBEDDERS)}, not {embedder!r}"
            )
        url = environment.get(URL, "").strip().rstrip("/")
        model = environment.get(MODEL, "").strip()
        if embedder == "offline":
            if url or model:
                raise ConfigurationError(
                    f"{URL} and {MODEL} need {EMBEDDER}=ollama or openai: set it, too"
                )
            return cls()
        if not url and embedder == "ollama":
            url = OLLAMA_URL
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            # The URL may contain a password, so it is not shown.
            raise ConfigurationError(f"{URL} must be the http or https URL of the endpoint")
        if not model:
            raise ConfigurationError(f"{EMBEDDER}={embedder} needs {MODEL}: the name of the model")
        return cls(embedder, url, model, environment.get(KEY, "").strip())

    @property
    def secret(self) -> str:
        """The resolved key."""
        return resolve(self.key)
