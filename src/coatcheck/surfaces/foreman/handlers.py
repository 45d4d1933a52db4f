"""The handlers of the surface's endpoints: Ollama's calls, queued or direct, and jobs."""

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
from coatcheck.relay.intake import IntakeOptions, StoredRequest, store_request
from coatcheck.relay.responder import Responder, ResponderOptions, read_caller_wait
from coatcheck.surfaces.foreman import direct, errors
from coatcheck.surfaces.foreman.call import (
    STATE_WEBHOOK,
    ModelCall,
    queue_of,
    read_model,
    read_options,
    upstream_body,
)
from coatcheck.surfaces.foreman.constants import KIND, MODEL, SURFACE
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
from coatcheck.surfaces.foreman.views import job_view, read_outcome
from coatcheck.surfaces.foreman.webhooks import EVENTS

# A larger body is parsed in a thread, to keep the loop responsive.
PARSE_INLINE = 256 * 1024
# Only these headers are stored with a call: neither who calls, nor from where.
_STORED_HEADERS = (b"accept", b"content-type", b"user-agent", b"idempotency-key", b"prefer")


class ForemanHandlers:
    """The handlers of a server with these settings."""

    def __init__(
        self,
        settings: ForemanSettings,
        targets: ModelTargets,
        encryption: Callable[[], CallEncryption],
    ) -> None:
        self._settings = settings
        self._targets = targets
        self._encryption = encryption
        self._intake = IntakeOptions(KIND, headers=direct.HEADERS, credentials="drop")

    @cached_property
    def _responder(self) -> Responder:
        return Responder(self._encryption())

    # --- queued calls

    async def run_queued(self, path: str, request: Request) -> Response:
        """Submit a call of this path as a job, and respond as Ollama does."""
        engine: Engine = request.app.state.engine
        stored, model = await self._store(request, path, await self._read_json(request))
        wait = read_caller_wait(request, None)
        options = ResponderOptions(
            partial(self._accepted, path, is_preferred=wait.seconds is not None),
            partial(errors.format_failure, path=path),
            "cancel" if self._settings.cancels_on_hangup else "continue",
        )
        submit = partial(self._submit, request, stored, model, None)
        return await self._responder.respond(request, engine, stored, submit, wait, options)

    def _accepted(self, path: str, job: Job, headers: Pairs, *, is_preferred: bool) -> Response:
        if not is_preferred:  # the caller did not ask for a 202: this process is about to stop
            message = f"this server is about to stop; job {job.public_id} continues"
            return errors.write_error(503, message, path, {"Retry-After": "5"})
        return _accepted_response(job, dict(headers))

    async def submit_chat(self, request: Request) -> Response:
        """Submit a chat as a job, and return its id in a 202."""
        body = await self._read_json(request)
        webhook = _read_webhook(body)
        if isinstance(body, dict):
            body = {**body, "stream": False}  # no caller reads a stream
        stored, model = await self._store(request, CHAT, body)
        engine: Engine = request.app.state.engine
        submission = stored.to_submission(self._encryption(), engine.new_id())
        submitted = await self._submit(request, stored, model, webhook, submission)
        replayed = {"Idempotency-Replayed": "true"} if submitted.replayed else {}
        return _accepted_response(submitted.jobs[0], replayed)

    async def _read_json(self, request: Request) -> Any:
        # As Ollama, whatever its content type.
        content = await read_bounded(request, self._settings.max_body)
        if len(content) <= PARSE_INLINE:
            return parse_json(content)
        return await asyncio.to_thread(parse_json, content)

    async def _store(self, request: Request, path: str, body: Any) -> tuple[StoredRequest, str]:
        engine: Engine = request.app.state.engine
        model = read_model(body)
        content = await asyncio.to_thread(_dump_json, upstream_body(body, path, self._settings))
        stored = await store_request(
            _without_credentials(request),
            engine,
            tenant_of(request),
            self._intake,
            self._encryption(),
            path=path,
            content=content,
        )
        call = ModelCall(**stored.call.model_dump(), model=model, options=read_options(body))
        return stored._replace(call=call), model

    async def _submit(
        self,
        request: Request,
        stored: StoredRequest,
        model: str,
        webhook: WebhookSpec | None,
        submission: Submission,
    ) -> Submitted:
        engine: Engine = request.app.state.engine
        submission = submission._replace(
            queue=queue_of(model),
            surface=SURFACE,
            labels={**stored.labels, MODEL: model},
            webhook=webhook,
        )
        submission = bind_submission(request, submission)
        key = read_idempotency_key(request, stored.fingerprint)
        if key is None:
            return Submitted([await engine.submit(submission)], replayed=False)
        return await engine.submit_idempotent(submission, key)

    # --- direct calls

    async def list_models(self, _request: Request) -> Response:
        """List the models of all targets."""
        return await direct.merge_lists(self._targets, TAGS, "models", "name")

    async def list_loaded(self, _request: Request) -> Response:
        """List the loaded models of all targets."""
        return await direct.merge_lists(self._targets, PS, "models", "name")

    async def list_openai_models(self, _request: Request) -> Response:
        """List the models of all targets, in OpenAI's format."""
        return await direct.merge_lists(self._targets, OPENAI_MODELS, "data", "id")

    async def confirm_running(self, _request: Request) -> Response:
        """Confirm that Ollama is running, in its own words."""
        return PlainTextResponse("Ollama is running")

    async def get_version(self, request: Request) -> Response:
        """Return the version of a target's Ollama."""
        return await direct.pass_through(request, self._targets, VERSION, None, None)

    async def get_openai_model(self, request: Request) -> Response:
        """Return a model, in OpenAI's format."""
        model = request.path_params["model"]
        return await direct.pass_through(request, self._targets, model_path(model), model, None)

    async def call_directly(self, path: str, request: Request) -> Response:
        """Call this path of a target that has the model, without a queue."""
        content = await read_bounded(request, self._settings.max_body)
        body = await asyncio.to_thread(parse_json, content)
        if isinstance(body, dict) and "model" not in body and "name" in body:
            body = {**body, "model": body["name"]}  # Ollama's former name for it
        return await direct.pass_through(request, self._targets, path, read_model(body), content)

    # --- jobs

    async def show_job(self, request: Request, job: Job) -> Response:
        """Return a job."""
        engine: Engine = request.app.state.engine
        outcome = await read_outcome(job, engine.payload_store.stream, self._encryption())
        return JSONResponse(job_view(job, outcome))

    async def get_artifact(self, request: Request) -> Response:
        """Return an artifact of a job."""
        engine: Engine = request.app.state.engine
        job = await find_job(request, request.path_params["job_id"], SURFACE)
        outcome = await read_outcome(job, engine.payload_store.stream, self._encryption())
        wanted = request.path_params["file"]
        for artifact in () if outcome is None else outcome.artifacts:
            if artifact.name == wanted:
                return Response(
                    artifact.content, headers=SANDBOX_HEADERS, media_type=artifact.content_type
                )
        raise NotFound(f"job {job.public_id} has no artifact of that name")


def _accepted_response(job: Job, headers: dict[str, str]) -> Response:
    location = {"Location": f"/jobs/{job.public_id}", **headers}
    return JSONResponse({"job_id": job.public_id}, 202, location)


def _dump_json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _read_webhook(body: Any) -> WebhookSpec | None:
    url = body.get(STATE_WEBHOOK) if isinstance(body, dict) else None
    if url is None:
        return None
    if not isinstance(url, str):
        message = "must be a URL, such as https://example.com/hook"
        raise InvalidPayload(f"{STATE_WEBHOOK}: {message}", [(f"/{STATE_WEBHOOK}", message)])
    return WebhookSpec(url, EVENTS)


def _without_credentials(request: Request) -> Request:
    """Return a request without its credentials: those are for this server, and a target gets the
    operator's token.
    """
    headers = [pair for pair in request.scope["headers"] if pair[0] in _STORED_HEADERS]
    return Request({**request.scope, "headers": headers}, request.receive)
