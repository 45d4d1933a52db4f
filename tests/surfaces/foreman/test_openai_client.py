"""OpenAI's client on Ollama's OpenAI routes, through the same queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.surfaces.foreman.conftest import Foreman, Serve
from tests.surfaces.foreman.ollama_shim import Ollama

pytestmark = pytest.mark.anyio

HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def foreman(serve: Serve, upstream: Ollama) -> AsyncIterator[Foreman]:
    async with serve(upstream.url) as found:
        yield found


@pytest.fixture
async def client(foreman: Foreman) -> AsyncIterator[openai.AsyncOpenAI]:
    # The client needs a key; a server without keys accepts any.
    async with openai.AsyncOpenAI(
        base_url=f"{foreman.url}/v1", api_key="ollama", max_retries=0
    ) as found:
        yield found


async def test_chat_goes_through_the_queue(
    foreman: Foreman, client: openai.AsyncOpenAI, upstream: Ollama
) -> None:
    whole = await client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=6)
    stream = await client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=6, stream=True
    )
    said = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert whole.choices[0].message.content == "".join(said)
    assert len([word for word in said if word]) == 6
    assert "keep_alive" not in upstream.generated[0]  # not part of the OpenAI format
    jobs = (await foreman.http.get("/v1/jobs?kind=ollama")).json()["jobs"]
    # A caller gets the end of a response before it is stored.
    shown = [await foreman.ended(job["id"]) for job in jobs]
    assert [each["state"] for each in shown] == ["done"] * 2
    texts = [each["result"]["choices"][0]["message"]["content"] for each in shown]
    assert texts == [whole.choices[0].message.content] * 2
    assert [each["artifacts"][0]["inline"] for each in shown] == texts
    assert shown[0]["result"]["object"] == "chat.completion"


async def test_models_and_embeddings(client: openai.AsyncOpenAI, upstream: Ollama) -> None:
    assert [model.id async for model in client.models.list()] == upstream.models
    found = await client.embeddings.create(model="tiny", input="a", encoding_format="float")
    assert found.data[0].embedding == [1.0, 2.0]


async def test_errors_have_openais_format(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="model 'none' not found"):
        await client.chat.completions.create(model="none", messages=HELLO)
    with pytest.raises(openai.BadRequestError, match="model is required"):
        await client.chat.completions.create(model="", messages=HELLO)
