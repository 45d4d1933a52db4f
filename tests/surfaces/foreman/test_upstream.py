"""Ollama's own client works with the upstream of these tests."""

from __future__ import annotations

import ollama
import pytest

from tests.surfaces.foreman.ollama_shim import serving_ollama

pytestmark = pytest.mark.anyio


async def test_shim_behaves_like_ollama() -> None:
    async with serving_ollama() as upstream, ollama.AsyncClient(upstream.url) as client:
        stream = await client.chat("tiny", [{"role": "user", "content": "hello"}], stream=True)
        chunks = [chunk async for chunk in stream]
        assert [chunk.done for chunk in chunks] == [False] * 8 + [True]
        said = "".join(chunk.message.content or "" for chunk in chunks)
        whole = await client.generate("tiny", "hello")
        assert whole.done
        assert said.isascii()
        assert said
        assert [each.model for each in (await client.ps()).models] == ["tiny:latest"]
        with pytest.raises(ollama.ResponseError, match="model 'none' not found"):
            await client.chat("none", [{"role": "user", "content": "hello"}])
