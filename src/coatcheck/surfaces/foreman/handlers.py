"""What the surface answers: calls of Ollama's, queued or straight through, and jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.errors import InvalidPayload, NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.files.artifacts import SANDBOX_HEADERS
from coatcheck.http.request.body import parse_json, read_bounded
from coatcheck.http.request.idempotency import read_idempotency_key
from coatcheck.http.surfaces.submit import bind_submission, find_job
from coatcheck.model.job import Job
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.headers import Pairs
from coatcheck.relay.intake import IntakeOptions, StoredRequest, take
from coatcheck.relay.responder import Responder, ResponderOptions, wait_of
from coatcheck.surfaces.foreman import direct, errors
from coatcheck.surfaces.foreman.call import (
    STATE_WEBHOOK,
    ModelCall,
    as_sent,
    model_in,
    options_in,
)
from coatcheck.surfaces.foreman.constants import KIND, MODEL, SURFACE
from coatcheck.surfaces.foreman.models import queue_of
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.targets import ModelTargets
from coatcheck.surfaces.foreman.upstream_paths import (
    CHAT,
    OPENAI_MODELS,
    PS,
    TAGS,
    VERSION,
    model_path,
)
from coatcheck.surfaces.foreman.views import job_view, outcome_of
from coatcheck.surfaces.foreman.webhooks import EVENTS

# A larger body is read in a thread: the loop has others to answer.
READ_AT_ONCE = 256 * 1024
# What is for us alone is not kept with a call: neither who asks, nor where from.
_KEPT_HEADERS = (b"accept", b"content-type", b"user-agent", b"idempotency-key", b"prefer")


class ForemanHandlers:
    """The calls of a server with these settings."""

    def __init__(
        self,
        settings: ForemanSettings,
        targets: ModelTargets,
        secrecy: Callable[[], CallEncryption],
    ) -> None:
        self._settings = settings
        self._targets = targets
        self._secrecy = secrecy
        self._keeps = IntakeOptions(KIND, headers=direct.HEADERS, credentials="drop")

    @cached_property
    def _reception(self) -> Responder:
        return Responder(self._secrecy())

    # --- what waits for its turn

    async def queued(self, path: str, request: Request) -> Response:
        """Queue a call of this path and answer it as Ollama does."""
        engine: Engine = request.app.state.engine
        taken, model = await self._take(request, path, await self._read(request))
        wait = wait_of(request, None)
        manners = ResponderOptions(
            partial(self._accepted, path, is_wanted=wait.seconds is not None),
            partial(errors.failed, path=path),
            "cancel" if self._settings.cancels_on_hangup else "continue",
        )
        submit = partial(self._submit, request, taken, model, None)
        return await self._reception.receive(request, engine, taken, submit, wait, manners)

    def _accepted(self, path: str, job: Job, headers: Pairs, *, is_wanted: bool) -> Response:
        if not is_wanted:  # nobody said that they could wait: this process is about to stop
            words = f"this server is about to stop; job {job.public_id} goes on"
            return errors.error(503, words, path, {"Retry-After": "5"})
        return _accepted(job, dict(headers))

    async def submit(self, request: Request) -> Response:
        """Make a job of a chat: 202 and its id at once."""
        body = await self._read(request)
        webhook = _webhook_in(body)
        if isinstance(body, dict):
            body = {**body, "stream": False}  # nobody would hear it
        taken, model = await self._take(request, CHAT, body)
        engine: Engine = request.app.state.engine
        asked = taken.submission(self._secrecy(), engine.new_id())
        submitted = await self._submit(request, taken, model, webhook, asked)
        replayed = {"Idempotency-Replayed": "true"} if submitted.replayed else {}
        return _accepted(submitted.jobs[0], replayed)

    async def _read(self, request: Request) -> Any:
        # As Ollama, without a look at what its type is said to be.
        content = await read_bounded(request, self._settings.most_bytes)
        if len(content) <= READ_AT_ONCE:
            return parse_json(content)
        return await asyncio.to_thread(parse_json, content)

    async def _take(self, request: Request, path: str, body: Any) -> tuple[StoredRequest, str]:
        engine: Engine = request.app.state.engine
        model = model_in(body)
        content = await asyncio.to_thread(_dumped, as_sent(body, path, self._settings))
        bare = _without_credentials(request)
        taken = await take(
            bare,
            engine,
            tenant_of(request),
            self._keeps,
            self._secrecy(),
            path=path,
            content=content,
        )
        call = ModelCall(**taken.call.model_dump(), model=model, options=options_in(body))
        return taken._replace(call=call), model

    async def _submit(
        self,
        request: Request,
        taken: StoredRequest,
        model: str,
        webhook: WebhookSpec | None,
        asked: Submission,
    ) -> Submitted:
        engine: Engine = request.app.state.engine
        asked = asked._replace(
            queue=queue_of(model),
            surface=SURFACE,
            labels={**taken.labels, MODEL: model},
            webhook=webhook,
        )
        named, once = (
            bind_submission(request, asked),
            read_idempotency_key(request, taken.fingerprint),
        )
        if once is None:
            return Submitted([await engine.submit(named)], replayed=False)
        return await engine.submit_idempotent(named, once)

    # --- what does not

    async def tags(self, _request: Request) -> Response:
        """List the models of all targets."""
        return await direct.ask_all(self._targets, TAGS, "models", "name")

    async def running(self, _request: Request) -> Response:
        """List the models that are loaded, on all targets."""
        return await direct.ask_all(self._targets, PS, "models", "name")

    async def openai_models(self, _request: Request) -> Response:
        """List the models of all targets, as OpenAI does."""
        return await direct.ask_all(self._targets, OPENAI_MODELS, "data", "id")

    async def here(self, _request: Request) -> Response:
        """Answer as Ollama does to whoever wants to know whether it is there."""
        return PlainTextResponse("Ollama is running")

    async def version(self, request: Request) -> Response:
        """Say which Ollama answers."""
        return await direct.pass_through(request, self._targets, VERSION, None, None)

    async def openai_model(self, request: Request) -> Response:
        """Show a model, as OpenAI does."""
        model = request.path_params["model"]
        return await direct.pass_through(request, self._targets, model_path(model), model, None)

    async def straight(self, path: str, request: Request) -> Response:
        """Call this path of a target that has the model, without a queue."""
        content = await read_bounded(request, self._settings.most_bytes)
        body = await asyncio.to_thread(parse_json, content)
        if isinstance(body, dict) and "model" not in body and "name" in body:
            body = {**body, "model": body["name"]}  # as it was called before
        return await direct.pass_through(request, self._targets, path, model_in(body), content)

    # --- jobs

    async def show_job(self, request: Request, job: Job) -> Response:
        """Show a job."""
        engine: Engine = request.app.state.engine
        outcome = await outcome_of(job, engine.payload_store.stream, self._secrecy())
        return JSONResponse(job_view(job, outcome))

    async def artifact(self, request: Request) -> Response:
        """Answer with what a job has left behind."""
        engine: Engine = request.app.state.engine
        job = await find_job(request, request.path_params["job_id"], SURFACE)
        outcome = await outcome_of(job, engine.payload_store.stream, self._secrecy())
        wanted = request.path_params["file"]
        for left in () if outcome is None else outcome.artifacts:
            if left.name == wanted:
                return Response(left.content, headers=SANDBOX_HEADERS, media_type=left.content_type)
        raise NotFound(f"job {job.public_id} has no artifact of that name")


def _accepted(job: Job, headers: dict[str, str]) -> Response:
    place = {"Location": f"/jobs/{job.public_id}", **headers}
    return JSONResponse({"job_id": job.public_id}, 202, place)


def _dumped(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _webhook_in(body: Any) -> WebhookSpec | None:
    url = body.get(STATE_WEBHOOK) if isinstance(body, dict) else None
    if url is None:
        return None
    if not isinstance(url, str):
        words = "it is an address, such as https://example.com/hook"
        raise InvalidPayload(f"{STATE_WEBHOOK}: {words}", [(f"/{STATE_WEBHOOK}", words)])
    return WebhookSpec(url, EVENTS)


def _without_credentials(request: Request) -> Request:
    """Return a request without what tells who makes it: that is between the caller and us, and the
    target is shown the operator's own token.
    """
    kept = [pair for pair in request.scope["headers"] if pair[0] in _KEPT_HEADERS]
    return Request({**request.scope, "headers": kept}, request.receive)
