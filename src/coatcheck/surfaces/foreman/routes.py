"""The table of the surface's calls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from coatcheck.http.endpoint import (
    ANY,
    IDEMPOTENCY_KEY,
    JSON,
    TRACEPARENT,
    Access,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Handler,
    KindRule,
    Parameter,
    Schema,
)
from coatcheck.model.access import Scope
from coatcheck.surfaces.foreman import upstream_paths as paths
from coatcheck.surfaces.foreman.constants import KIND
from coatcheck.surfaces.foreman.handlers import ForemanHandlers
from coatcheck.surfaces.foreman.stream_merge import EVENTS, NDJSON

TAG = "foreman"
# Below these the errors are Ollama's; `/jobs` is shared with other surfaces.
PREFIXES = (
    *("/api/chat", "/api/generate", "/api/tags", "/api/ps", "/api/show", "/api/version"),
    *("/api/embed", "/api/embeddings", "/v1/chat", "/v1/completions", "/v1/embeddings"),
    "/v1/models",
)
_TEXT: Schema = {"type": "string"}
_MODEL: Schema = {"type": "string", "minLength": 1}
_OBJECT: Schema = {"type": "object"}
_ERROR = {
    JSON: {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"anyOf": [_TEXT, _OBJECT]}},
    }
}
_CALL = {
    JSON: {"type": "object", "required": ["model"], "properties": {"model": _MODEL}},
    ANY: {},  # as Ollama, without a look at what its type is said to be
}
_CHAT = {
    JSON: {
        "type": "object",
        "required": ["model"],
        "properties": {
            "model": _MODEL,
            "messages": {"type": "array", "items": _OBJECT},
            "state_webhook_url": {"type": "string", "format": "uri"},
        },
    },
    ANY: {},
}
_JOB_ID = {
    JSON: {"type": "object", "required": ["job_id"], "properties": {"job_id": _TEXT}},
}
_PREFER = Parameter(
    "Prefer",
    "`respond-async` answers at once, `wait=N` waits so many seconds at most.",
    _TEXT,
    location="header",
)
_QUEUED_REFUSALS = (400, 408, 413, 422, 429, 502, 503, 504)
_STRAIGHT_REFUSALS = (400, 408, 413, 422, 502, 503)


def endpoints_for(calls: ForemanHandlers) -> list[Endpoint]:
    """Make the table."""
    return [
        _queued(calls, paths.CHAT, "chat", "Chat with a model", NDJSON),
        _queued(calls, paths.GENERATE, "generate", "Have a model go on with a text", NDJSON),
        _queued(calls, paths.OPENAI_CHAT, "openaiChat", "Chat, as OpenAI has it", EVENTS),
        _queued(calls, paths.OPENAI_COMPLETIONS, "openaiComplete", "Go on with a text", EVENTS),
        Endpoint(
            "GET",
            "/",
            calls.here,
            "ollamaIsRunning",
            "Say that Ollama is running, as its command line asks first",
            TAG,
            {200: EndpointResponse("It is.", {"text/plain": {}})},
            access=Access.PUBLIC,
        ),
        _looked(paths.TAGS, calls.tags, "listModels", "List the models of all targets"),
        _looked(paths.PS, calls.running, "listLoadedModels", "List the models that are loaded"),
        _looked(paths.VERSION, calls.version, "ollamaVersion", "Say which Ollama answers"),
        _looked(
            paths.OPENAI_MODELS,
            calls.openai_models,
            "openaiModels",
            "List all models, as OpenAI does",
        ),
        _model(calls),
        _straight(calls, paths.SHOW, "showModel", "Show a model", Scope.READ),
        _straight(calls, paths.EMBED, "embed", "Embed texts, without a queue"),
        _straight(calls, paths.EMBEDDINGS, "embeddings", "Embed a text, without a queue"),
        _straight(
            calls, paths.OPENAI_EMBEDDINGS, "openaiEmbeddings", "Embed texts, without a queue"
        ),
        Endpoint(
            "POST",
            "/jobs",
            calls.submit,
            "submitChat",
            "Hand a chat in, and be told how it goes",
            TAG,
            {202: EndpointResponse("It will be done.", _JOB_ID, ("Location",))},
            error_statuses=_QUEUED_REFUSALS,
            parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
            body=EndpointBody("A chat as Ollama has it, and where to call.", _CHAT),
            kind=KIND,
            error_media=_ERROR,
        ),
        Endpoint(
            "GET",
            "/jobs/{job_id}/artifacts/{file}",
            calls.artifact,
            "getCompletion",
            "Get what a job has left behind",
            TAG,
            {200: EndpointResponse("It.", {ANY: {}})},
            error_statuses=(404,),
            kind=KindRule.JOB,
            error_media=_ERROR,
        ),
    ]


def _queued(calls: ForemanHandlers, path: str, name: str, summary: str, stream: str) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        partial(calls.queued, path),
        name,
        summary,
        TAG,
        {
            200: EndpointResponse(
                "What the model says, in one piece or as it comes.", {stream: {}, ANY: {}}
            ),
            202: EndpointResponse(
                "It takes longer than the caller would wait.", _JOB_ID, ("Location",)
            ),
        },
        error_statuses=(404, *_QUEUED_REFUSALS),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT, _PREFER),
        body=EndpointBody("As Ollama has it.", _CALL),
        kind=KIND,
        error_media=_ERROR,
    )


def _looked(path: str, handler: Handler, name: str, summary: str) -> Endpoint:
    answers = {200: EndpointResponse("As Ollama has it.", {ANY: {}})}
    return Endpoint(
        *("GET", path, handler, name, summary, TAG, answers, (404, 502, 503)),
        kind=KIND,
        error_media=_ERROR,
    )


def _model(calls: ForemanHandlers) -> Endpoint:
    path = f"{paths.OPENAI_MODELS}/{{model:path}}"
    looked = _looked(path, calls.openai_model, "openaiModel", "Show a model")
    return replace(looked, error_statuses=(400, *looked.error_statuses))


def _straight(
    calls: ForemanHandlers, path: str, name: str, summary: str, needs: Scope | None = None
) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        partial(calls.straight, path),
        name,
        summary,
        TAG,
        {200: EndpointResponse("As Ollama has it.", {ANY: {}})},
        error_statuses=(404, *_STRAIGHT_REFUSALS),
        body=EndpointBody("As Ollama has it.", _CALL),
        needs=needs,
        kind=KIND,
        error_media=_ERROR,
    )
