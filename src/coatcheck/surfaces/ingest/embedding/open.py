"""From settings to an embedder."""

from __future__ import annotations

from pathlib import Path

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.ingest.embedding.base import Embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings


def weights() -> tuple[Path, ...]:
    """Return the folder of the offline embedder's weights, if they are here."""
    try:
        from coatcheck.surfaces.ingest.embedding.offline import installed_weights  # noqa: PLC0415

        return (installed_weights(),)
    except (ModuleNotFoundError, ConfigurationError):
        return ()


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """Return the embedder that the settings name; nothing is loaded or called yet."""
    # Optional parts: an endpoint needs no model here, and the model no endpoint.
    if settings.embedder == "ollama":
        from coatcheck.surfaces.ingest.embedding.ollama import OllamaEmbedder  # noqa: PLC0415

        return OllamaEmbedder(settings)
    if settings.embedder == "openai":
        from coatcheck.surfaces.ingest.embedding.openai import OpenAIEmbedder  # noqa: PLC0415

        return OpenAIEmbedder(settings)
    try:
        from coatcheck.surfaces.ingest.embedding.offline import OfflineEmbedder  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the offline embedder needs {error.name}: pip install 'coatcheck[ingest]', or set "
            "INGEST_EMBEDDER to ollama or openai"
        ) from error
    return OfflineEmbedder()
