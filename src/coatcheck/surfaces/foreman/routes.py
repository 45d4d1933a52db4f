"""The endpoint table of the surface."""

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
# Errors below these paths are in Ollama's format; `/jobs` is shared with other surfaces.
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
    ANY: {},  # as Ollama, whatever the content type
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
    "`respond-async` responds at once; `wait=N` waits at most N seconds.",
    _TEXT,
    location="header",
)
_QUEUED_ERRORS = (400, 408, 413, 422, 429, 502, 503, 504)
_DIRECT_ERRORS = (400, 408, 413, 422, 502, 503)
_AS_OLLAMA = {200: EndpointResponse("Ollama's response.", {ANY: {}})}


def build_endpoints(handlers: ForemanHandlers) -> list[Endpoint]:
    """Build the table."""
    return [
        _queued(handlers, paths.CHAT, "chat", "Chat with a model", NDJSON),
        _queued(handlers, paths.GENERATE, "generate", "Generate a completion", NDJSON),
        _queued(
            handlers, paths.OPENAI_CHAT, "openaiChat", "Chat with a model (OpenAI format)", EVENTS
        ),
        _queued(
            handlers,
            paths.OPENAI_COMPLETIONS,
            "openaiComplete",
            "Generate a completion (OpenAI format)",
            EVENTS,
        ),
        Endpoint(
            "GET",
            "/",
            handlers.confirm_running,
            "ollamaIsRunning",
            "Confirm that Ollama is running, as its command line expects",
            TAG,
            {200: EndpointResponse("Ollama is running.", {"text/plain": {}})},
            access=Access.PUBLIC,
        ),
        _fetched(paths.TAGS, handlers.list_models, "listModels", "List the models of all targets"),
        _fetched(paths.PS, handlers.list_loaded, "listLoadedModels", "List the loaded models"),
        _fetched(paths.VERSION, handlers.get_version, "ollamaVersion", "Get Ollama's version"),
        _fetched(
            paths.OPENAI_MODELS,
            handlers.list_openai_models,
            "openaiModels",
            "List the models of all targets (OpenAI format)",
        ),
        _openai_model(handlers),
        _direct(handlers, paths.SHOW, "showModel", "Show a model", Scope.READ),
        _direct(handlers, paths.EMBED, "embed", "Embed texts, without a queue"),
        _direct(handlers, paths.EMBEDDINGS, "embeddings", "Embed a text, without a queue"),
        _direct(
            handlers,
            paths.OPENAI_EMBEDDINGS,
            "openaiEmbeddings",
            "Embed texts, without a queue (OpenAI format)",
        ),
        Endpoint(
            "POST",
            "/jobs",
            handlers.submit_chat,
            "submitChat",
            "Submit a chat as a job",
            TAG,
            {202: EndpointResponse("The job is queued.", _JOB_ID, ("Location",))},
            error_statuses=_QUEUED_ERRORS,
            parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
            body=EndpointBody("A chat in Ollama's format, with an optional webhook URL.", _CHAT),
            kind=KIND,
            error_media=_ERROR,
        ),
        Endpoint(
            "GET",
            "/jobs/{job_id}/artifacts/{file}",
            handlers.get_artifact,
            "getCompletion",
            "Get an artifact of a job",
            TAG,
            {200: EndpointResponse("The artifact.", {ANY: {}})},
            error_statuses=(404,),
            kind=KindRule.JOB,
            error_media=_ERROR,
        ),
    ]


def _queued(handlers: ForemanHandlers, path: str, name: str, summary: str, stream: str) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        partial(handlers.run_queued, path),
        name,
        summary,
        TAG,
        {
            200: EndpointResponse(
                "The model's response, complete or streamed.", {stream: {}, ANY: {}}
            ),
            202: EndpointResponse(
                "The response takes longer than the caller waits.", _JOB_ID, ("Location",)
            ),
        },
        error_statuses=(404, *_QUEUED_ERRORS),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT, _PREFER),
        body=EndpointBody("The request in Ollama's format.", _CALL),
        kind=KIND,
        error_media=_ERROR,
    )


def _fetched(path: str, handler: Handler, name: str, summary: str) -> Endpoint:
    return Endpoint(
        *("GET", path, handler, name, summary, TAG, _AS_OLLAMA, (404, 502, 503)),
        kind=KIND,
        error_media=_ERROR,
    )


def _openai_model(handlers: ForemanHandlers) -> Endpoint:
    path = f"{paths.OPENAI_MODELS}/{{model:path}}"
    endpoint = _fetched(path, handlers.get_openai_model, "openaiModel", "Get a model")
    return replace(endpoint, error_statuses=(400, *endpoint.error_statuses))


def _direct(
    handlers: ForemanHandlers, path: str, name: str, summary: str, needs: Scope | None = None
) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        partial(handlers.call_directly, path),
        name,
        summary,
        TAG,
        _AS_OLLAMA,
        error_statuses=(404, *_DIRECT_ERRORS),
        body=EndpointBody("The request in Ollama's format.", _CALL),
        needs=needs,
        kind=KIND,
        error_media=_ERROR,
    )
