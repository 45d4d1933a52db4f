"""What an operator can set of embedding."""

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
# An Ollama where it is by default; whoever speaks as OpenAI's has to be named.
OLLAMA_URL = "http://127.0.0.1:11434"


@dataclass(frozen=True)
class EmbeddingSettings:
    """The comments are the reference; each field's name in the environment stands beside it.

    The address is the operator's own word, so the guard of outbound calls does not apply to it.
    """

    # INGEST_EMBEDDER: offline (a model that is installed with us), ollama, or openai for any
    # endpoint that speaks as OpenAI's.
    embedder: str = "offline"
    # INGEST_EMBED_URL: what /api/embed (ollama) or /v1/embeddings (openai) follows on.
    url: str = ""
    # INGEST_EMBED_MODEL: which model of the endpoint embeds.
    model: str = ""
    # INGEST_EMBED_KEY: the key for it, or a reference to it: file:/run/secrets/key.
    key: str = field(default="", repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> EmbeddingSettings:
        """Read them; raises ConfigurationError with the name of what is wrong."""
        embedder = environment.get(EMBEDDER, "").strip().lower() or cls.embedder
        if embedder not in EMBEDDERS:
            raise ConfigurationError(f"{EMBEDDER} is {', '.join(EMBEDDERS)}, not {embedder!r}")
        url = environment.get(URL, "").strip().rstrip("/")
        model = environment.get(MODEL, "").strip()
        if embedder == "offline":
            if url or model:
                raise ConfigurationError(
                    f"{URL} and {MODEL} are for {EMBEDDER}=ollama or openai: set it, too"
                )
            return cls()
        if not url and embedder == "ollama":
            url = OLLAMA_URL
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            # An address may hold a password: it is not shown.
            raise ConfigurationError(f"{URL} is the http or https address of the endpoint")
        if not model:
            raise ConfigurationError(f"{EMBEDDER}={embedder} needs {MODEL}: which model embeds")
        return cls(embedder, url, model, environment.get(KEY, "").strip())

    @property
    def secret(self) -> str:
        """The key itself."""
        return resolve(self.key)
