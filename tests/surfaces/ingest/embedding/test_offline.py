"""The offline model: its files are the published ones, and it finds texts by meaning."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.ingest.embedding.base import passage_text
from coatcheck.surfaces.ingest.embedding.minilm import MiniLM
from coatcheck.surfaces.ingest.embedding.offline import OfflineEmbedder
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.embedding.weights import installed_weights
from coatcheck.surfaces.ingest.embedding.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def embedder() -> AsyncIterator[OfflineEmbedder]:
    embedder = open_embedder(EmbeddingSettings.read({}))
    assert isinstance(embedder, OfflineEmbedder)
    yield embedder
    await embedder.close()


async def test_vectors_match_the_published_ones(embedder: OfflineEmbedder) -> None:
    # The three sentences and their similarities in the documentation of sentence-transformers.
    vectors = await embedder.embed_passages(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )
    assert vectors.shape == (3, await embedder.dimensions())
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=2e-4)


async def test_vector_does_not_depend_on_the_batch(embedder: OfflineEmbedder) -> None:
    text = "A passage about bees."
    alone = await embedder.embed_query(text)
    among = await embedder.embed_passages(["x " * 300, text, ""])
    np.testing.assert_allclose(among[1], alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(among, axis=1), 1, atol=1e-5)
    assert (await embedder.embed_passages([])).shape == (0, 384)


async def test_end_of_a_long_text_affects_the_vector(embedder: OfflineEmbedder) -> None:
    filler = "The committee met and talked about the budget. " * 40
    about = await embedder.embed_query("penguins in Antarctica")
    without, with_it = await embedder.embed_passages(
        [filler, filler + "Penguins live in Antarctica. " * 12]
    )
    assert with_it @ about > without @ about + 0.05


async def test_concurrent_queries(embedder: OfflineEmbedder) -> None:
    both = await asyncio.gather(*(embedder.embed_query(f"text {n % 2}") for n in range(8)))
    for number, vector in enumerate(both):
        np.testing.assert_allclose(vector, both[number % 2], atol=1e-6)


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_altered_model_files_are_rejected(tmp_path: Path, name: str) -> None:
    for file in ("model.safetensors", "vocab.txt"):
        (tmp_path / file).symlink_to(installed_weights() / file)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        MiniLM.load(tmp_path)
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ConfigurationError, match=f"{name} is not the published file"):
        MiniLM.load(tmp_path)


def test_headings_are_embedded_before_their_passage() -> None:
    assert passage_text("It runs.", ("Pumps", "At night")) == "Pumps > At night\nIt runs."
    assert passage_text("It runs.", ()) == "It runs."


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("unaffable naïve", ["una", "##ffa", "##ble", "naive"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("don't—stop…", ["don", "'", "t", "—", "stop", "…"]),
        ("a\tb\x00c\u200bd", ["a", "bc", "##d"]),
        ("x" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_texts_are_split_into_word_pieces(text: str, pieces: list[str]) -> None:
    vocabulary = (installed_weights() / "vocab.txt").read_text(encoding="utf-8").split("\n")
    numbers = WordPieceTokenizer(vocabulary).token_ids(text)
    assert [vocabulary[number] for number in numbers] == pieces
