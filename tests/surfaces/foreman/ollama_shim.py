"""Ollama for tests: its paths and shapes, over a real llama.cpp server with a tiny model.

Every model it lists is the same tiny one; what matters is that one is loaded at a time, as on a
laptop. A test can hold it where it loads a model or where it has said its first word, and sees what
it was asked and how many calls were open at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
import xllamacpp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.surfaces.foreman.tiny_model import CONTEXT, write_tiny_model

VERSION = "0.12.3"
DETAILS = {"format": "gguf", "family": "llama", "parameter_size": "30K"}


@cache
def llama() -> xllamacpp.Server:
    """Start llama.cpp once a process; it ends with it."""
    path = Path(tempfile.mkdtemp(prefix="tiny-")) / "tiny.gguf"
    write_tiny_model(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = CONTEXT * 2
    params.n_parallel = 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.port = 0
    params.verbosity = -1
    server = xllamacpp.Server(params)
    path.unlink()
    return server


class Gate:
    """A place where calls stop while it is shut; `reached` says that one has."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()
        self.reached.clear()

    def open(self) -> None:
        self._open.set()

    async def pass_through(self) -> None:
        self.reached.set()
        await self._open.wait()


class Ollama:
    """One server, on a port of its own."""

    def __init__(self, *models: str) -> None:
        self.models = list(models or ("tiny:latest", "other:latest"))
        self.loaded: str | None = None
        self.loading, self.speaking = Gate(), Gate()
        self.asked: list[tuple[str, dict[str, Any]]] = []  # what generates, in order
        self.headers: list[dict[str, str]] = []
        self.open = self.most_open = 0
        self.closed = asyncio.Event()  # set whenever a call has ended, however it did
        self.port = 0
        self._llama = httpx2.AsyncClient(base_url=llama().listening_address, timeout=60)
        routes = [
            Route(path, call, methods=[method])
            for method, path, call in (
                ("GET", "/api/version", self._version),
                ("GET", "/api/tags", self._tags),
                ("GET", "/api/ps", self._ps),
                ("POST", "/api/show", self._show),
                ("POST", "/api/embed", self._embed),
                ("POST", "/api/embeddings", self._embeddings),
                ("POST", "/api/chat", self._chat),
                ("POST", "/api/generate", self._generate),
                ("GET", "/v1/models", self._openai_models),
                ("POST", "/v1/chat/completions", self._openai_chat),
                ("POST", "/v1/embeddings", self._openai_embeddings),
            )
        ]
        self.app = Starlette(routes=routes)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def generated(self) -> list[dict[str, Any]]:
        """What was asked, without the calls that only load a model."""
        return [body for _, body in self.asked if "prompt" in body or "messages" in body]

    async def close(self) -> None:
        self.loading.open()
        self.speaking.open()
        await self._llama.aclose()

    # --- what is there

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": VERSION})

    def _described(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "model": name,
            "modified_at": "2026-01-01T00:00:00Z",
            "size": 123_424,
            "digest": "0" * 64,
            "details": DETAILS,
        }

    async def _tags(self, _: Request) -> Response:
        return JSONResponse({"models": [self._described(name) for name in self.models]})

    async def _ps(self, _: Request) -> Response:
        until = {"expires_at": "2318-01-01T00:00:00Z", "size_vram": 0}
        running = [] if self.loaded is None else [{**self._described(self.loaded), **until}]
        return JSONResponse({"models": running})

    async def _show(self, request: Request) -> Response:
        asked = await request.json()
        name = self._find(asked.get("model") or asked.get("name"))
        if name is None:
            return _not_found(asked.get("model"))
        shown = {"modelfile": "FROM tiny", "template": "{{ .Prompt }}", "details": DETAILS}
        return JSONResponse({**shown, "model_info": {}, "capabilities": ["completion"]})

    async def _embed(self, request: Request) -> Response:
        asked = await request.json()
        if self._find(asked["model"]) is None:
            return _not_found(asked["model"])
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        vectors = [[float(len(text)), 1.0] for text in texts]
        return JSONResponse({"model": asked["model"], "embeddings": vectors})

    async def _embeddings(self, request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({"embedding": [float(len(asked["prompt"])), 1.0]})

    async def _openai_models(self, _: Request) -> Response:
        known = [
            {"id": name, "object": "model", "created": 1, "owned_by": "library"}
            for name in self.models
        ]
        return JSONResponse({"object": "list", "data": known})

    async def _openai_embeddings(self, request: Request) -> Response:
        asked = await request.json()
        data = [{"object": "embedding", "index": 0, "embedding": [1.0, 2.0]}]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        said = {"object": "list", "model": asked["model"], "data": data, "usage": usage}
        return JSONResponse(said)

    def _find(self, name: str | None) -> str | None:
        full = name if name is None or ":" in name else f"{name}:latest"
        return full if full in self.models else None

    # --- generating

    async def _chat(self, request: Request) -> Response:
        body = await self._begin(request)
        if not body.get("model"):
            return JSONResponse({"error": "model is required"}, 400)
        if self._find(body["model"]) is None:
            return _not_found(body["model"])
        return await self._native(request, body, "message")

    async def _generate(self, request: Request) -> Response:
        body = await self._begin(request)
        name = self._find(body.get("model"))
        if name is None:
            return _not_found(body.get("model"))
        if not body.get("prompt"):
            await self._load(name)
            done = {"response": "", "done": True, "done_reason": "load"}
            return JSONResponse({"model": body["model"], "created_at": _now(), **done})
        return await self._native(request, body, "response")

    async def _begin(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.asked.append((request.url.path, body))
        self.headers.append(dict(request.headers))
        return body

    async def _load(self, name: str) -> None:
        if self.loaded != name:
            self.loaded = None
            await self.loading.pass_through()
            self.loaded = name

    async def _native(self, request: Request, body: dict[str, Any], member: str) -> Response:
        model, words = body["model"], self._words(body)

        def chunk(text: str, **more: Any) -> dict[str, Any]:
            said: Any = {"role": "assistant", "content": text} if member == "message" else text
            return {"model": model, "created_at": _now(), member: said, "done": False, **more}

        def last(text: str, count: int) -> dict[str, Any]:
            counts = {"prompt_eval_count": 5, "eval_count": count}
            times = {"total_duration": 9, "load_duration": 1, "eval_duration": 3}
            return chunk(text, done=True, done_reason="stop", **times, **counts)

        if body.get("stream", True):

            async def lines() -> AsyncIterator[str]:
                count = 0
                async for word in words:
                    count += 1
                    yield json.dumps(chunk(word)) + "\n"
                yield json.dumps(last("", count)) + "\n"

            return StreamingResponse(lines(), media_type="application/x-ndjson")
        text = await _while_connected(request, _all_of(words))
        return JSONResponse(last("".join(text), len(text)))

    async def _words(self, body: dict[str, Any]) -> AsyncIterator[str]:
        with self._counted():
            await self._load(self._find(body["model"]) or "")
            messages = body.get("messages") or [{"role": "user", "content": body.get("prompt")}]
            most = (body.get("options") or {}).get("num_predict", 8)
            asked = {"messages": messages, "max_tokens": most, "stream": True, "temperature": 0}
            path = "/v1/chat/completions"
            async with self._llama.stream("POST", path, json=asked) as answer:
                async for line in answer.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    [choice] = json.loads(line[6:])["choices"]
                    if choice["delta"].get("content"):
                        yield choice["delta"]["content"]
                        await self.speaking.pass_through()

    async def _openai_chat(self, request: Request) -> Response:
        body = await self._begin(request)
        name = self._find(body.get("model"))
        if name is None:
            error = {"message": f"model '{body.get('model')}' not found", "type": "api_error"}
            return JSONResponse({"error": {**error, "param": None, "code": None}}, 404)

        async def pieces() -> AsyncIterator[bytes]:
            with self._counted():
                await self._load(name)
                asked = {**body, "temperature": 0}
                path = "/v1/chat/completions"
                async with self._llama.stream("POST", path, json=asked) as answer:
                    async for piece in answer.aiter_bytes():
                        yield piece
                        await self.speaking.pass_through()

        media = "text/event-stream" if body.get("stream") else "application/json"
        return StreamingResponse(pieces(), media_type=media)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.closed.clear()
        try:
            yield
        finally:
            self.open -= 1
            self.closed.set()


async def _all_of(words: AsyncIterator[str]) -> list[str]:
    return [word async for word in words]


async def _while_connected(request: Request, speaking: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Stop speaking where nobody listens any more, as Ollama does."""
    task, gone = asyncio.create_task(speaking), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else []
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _not_found(model: str | None) -> Response:
    return JSONResponse({"error": f"model '{model}' not found"}, 404)


class Listening(uvicorn.Server):
    """A server on a loop that has other things to do."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def listening(app: Any, port: int = 0, grace_s: int = 1) -> AsyncIterator[int]:
    """Serve an app on a port of this machine, which is returned."""
    config = uvicorn.Config(
        app, port=port, log_config=None, lifespan="off", timeout_graceful_shutdown=grace_s
    )
    server, bound = Listening(config), config.bind_socket()
    running = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        await server.answers.wait()
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await running
        bound.close()


@contextlib.asynccontextmanager
async def serving_ollama(*models: str, port: int = 0) -> AsyncIterator[Ollama]:
    """Serve one on a port of its own, on this loop."""
    ollama = Ollama(*models)
    async with listening(ollama.app, port) as ollama.port:
        try:
            yield ollama
        finally:
            await ollama.close()
