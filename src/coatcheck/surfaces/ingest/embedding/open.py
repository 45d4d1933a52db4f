"""Open the embedder that the settings name."""

from __future__ import annotations

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.ingest.embedding.base import Embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the embedder that the settings name; nothing is loaded or called yet."""
    # Optional parts: an endpoint needs no local model, and the model needs no HTTP client.
    if settings.embedder == "ollama":
        from coatcheck.surfaces.ingest.embedding.endpoint import OllamaEmbedder  # noqa: PLC0415

        return OllamaEmbedder(settings)
    if settings.embedder == "openai":
        from coatcheck.surfaces.ingest.embedding.endpoint import OpenAIEmbedder  # noqa: PLC0415

        return OpenAIEmbedder(settings)
    try:
        from coatcheck.surfaces.ingest.embedding.offline import OfflineEmbedder  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the offline embedder needs {error.name}: run pip install 'coatcheck[ingest]', or set "
            "INGEST_EMBEDDER to ollama or openai"
        ) from error
    return OfflineEmbedder()
