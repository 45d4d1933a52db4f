"""Embedding by an endpoint: its requests, and what its responses mean for a job."""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import xllamacpp

from coatcheck.errors import Fail, Retry
from coatcheck.surfaces.ingest.embedding.base import (
    Embedder,
    EmbedderRejected,
    EmbedderUnreachable,
    embedder_errors_as_signals,
)
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from tests.surfaces.foreman.tiny_model import write_tiny_model

from .embedding_endpoint import MODEL, Endpoint, endpoint, vector_of

pytestmark = pytest.mark.anyio
PATHS = {"ollama": "/api/embed", "openai": "/v1/embeddings"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def served() -> Iterator[Endpoint]:
    with endpoint() as it:
        yield it


@pytest.fixture(params=["ollama", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def embedder_for(api: str, url: str, model: str = MODEL, key: str = "") -> Embedder:
    return open_embedder(
        EmbeddingSettings.read(
            {
                "INGEST_EMBEDDER": api,
                "INGEST_EMBED_URL": url,
                "INGEST_EMBED_MODEL": model,
                "INGEST_EMBED_KEY": key,
            }
        )
    )


@pytest.fixture
async def embedder(api: str, served: Endpoint) -> AsyncIterator[Embedder]:
    embedder = embedder_for(api, f"{served.url}/")
    yield embedder
    await embedder.close()


async def test_texts_are_embedded_in_order(embedder: Embedder, served: Endpoint, api: str) -> None:
    texts = ["a banana", "b", "Ünïcode 🎉"]
    vectors = await embedder.embed_passages(texts)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [vector_of(text) for text in texts]
    assert served.asked == [(PATHS[api], {"model": MODEL, "input": texts})]
    assert (await embedder.embed_query("b")).tolist() == vector_of("b")
    assert embedder.name == f"{api}:{MODEL}"
    assert served.authorization == [None, None]


async def test_dimensions_are_requested_once(embedder: Embedder, served: Endpoint) -> None:
    assert [await embedder.dimensions() for _ in range(3)] == [4, 4, 4]
    assert len(served.asked) == 1
    assert (await embedder.embed_passages([])).shape == (0, 4)
    assert len(served.asked) == 1


async def test_key_can_be_a_file_reference(served: Endpoint, api: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    embedder = embedder_for(api, served.url, key=f"file:{file}")
    await embedder.embed_query("x")
    await embedder.close()
    assert served.authorization == ["Bearer s3cret"]


async def test_missing_model_fails_the_job(served: Endpoint, api: str) -> None:
    embedder = embedder_for(api, served.url, model="missing")
    with pytest.raises(EmbedderRejected, match='model "missing" not found, try pulling it first'):
        await embedder.embed_query("text of a user")
    with pytest.raises(Fail) as failed, embedder_errors_as_signals():
        await embedder.embed_passages(["text of a user"])
    assert failed.value.code == "embedder-refused"
    assert "text of a user" not in failed.value.message
    await embedder.close()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_transient_errors_are_retried(
    embedder: Embedder, served: Endpoint, status: int
) -> None:
    served.instead = status, b'{"error": "busy"}'
    with pytest.raises(EmbedderUnreachable, match=f"{status} busy"):
        await embedder.embed_query("x")
    with pytest.raises(Retry) as asked, embedder_errors_as_signals():
        await embedder.embed_passages(["x"])
    assert not asked.value.counts
    served.instead = None
    assert len(await embedder.embed_passages(["x"])) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302])
async def test_other_statuses_fail_the_job(
    embedder: Embedder, served: Endpoint, status: int
) -> None:
    served.instead = status, b"<html>no</html>"
    with pytest.raises(EmbedderRejected, match=str(status)):
        await embedder.embed_query("x")


@pytest.mark.parametrize(
    "content",
    [
        b"<html>hello</html>",
        b"{}",
        b"[]",
        b"null",
        b'{"embeddings": [], "data": []}',
        b'{"embeddings": [[1, 2], [3, 4]], "data": [{"index": 0}]}',
        b'{"embeddings": [["a"]], "data": [{"index": 0, "embedding": ["a"]}]}',
        b'{"embeddings": [[NaN]], "data": [{"index": 0, "embedding": [NaN]}]}',
        b'{"embeddings": 7, "data": 7}',
    ],
)
async def test_response_without_vectors_fails_the_job(
    embedder: Embedder, served: Endpoint, content: bytes
) -> None:
    served.instead = 200, content
    with pytest.raises(EmbedderRejected, match="has no vectors"):
        await embedder.embed_query("x")


async def test_connection_error_is_retried_and_hides_the_password(api: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so connections are refused
        port = taken.getsockname()[1]
        embedder = embedder_for(api, f"http://user:hunter2@127.0.0.1:{port}")
        with pytest.raises(EmbedderUnreachable, match="ConnectError") as unreachable:
            await embedder.embed_query("x")
        await embedder.close()
    assert "hunter2" not in str(unreachable.value)


async def test_real_llama_cpp_server_works(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_model(file)
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.n_ctx = 256
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.port = 0
    params.verbosity = -1
    server = xllamacpp.Server(params)
    embedder = embedder_for("openai", server.listening_address)
    vectors = await embedder.embed_passages(["one two", "three"])
    assert vectors.shape == (2, await embedder.dimensions())
    np.testing.assert_allclose(vectors[1], await embedder.embed_query("three"), atol=1e-3)
    await embedder.close()
