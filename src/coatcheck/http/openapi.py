"""OpenAPI 3.1, generated from the endpoint table, the documents and the declared kinds.

A submit has one schema for each kind, with the schema of the kind's input, so that a generated
client accepts only valid inputs. The schema of a kind's result is a component as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from coatcheck.documents import access, jobs, schedules, server, webhooks, workers
from coatcheck.documents.fields import Count, FileName, JobId, KeyId, Name
from coatcheck.documents.schema import component_name, schema_of
from coatcheck.errors import InvalidPayload
from coatcheck.http.access.handlers import KeyRequest, QuotasRequest, TenantRequest
from coatcheck.http.endpoint import (
    TENANT,
    Access,
    Endpoint,
    EndpointResponse,
    Parameter,
    Schema,
    ref,
)
from coatcheck.http.errors import MEDIA_TYPE as PROBLEM
from coatcheck.http.files.uploads import SignedRequest
from coatcheck.http.jobs.bulk import CancelRequest, DeleteRequest, ResumeRequest
from coatcheck.http.jobs.models import JobRequest
from coatcheck.http.jobs.steps import ForkRequest
from coatcheck.http.schedules.handlers import ScheduleRequest
from coatcheck.http.server.queues import QueueRequest
from coatcheck.http.webhooks.endpoints import webhook_messages
from coatcheck.http.webhooks.models import JobWebhook, WebhookRequest
from coatcheck.http.workers.handlers import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    ProgressRequest,
    StepError,
    StepRequest,
    StepsRequest,
)
from coatcheck.model.kind import Kind

# The errors of every endpoint: bad parameter, missing or insufficient key, unpaid tenant, caller
# not on loopback, no acceptable media type, store unavailable.
COMMON_ERRORS = (400, 401, 402, 403, 406, 503)
# The errors of every endpoint that needs a key: too many open requests of the tenant.
KEY_ERRORS = (429,)
_PATH_NAME = re.compile(r"\{(\w+)(?::\w+)?\}")
_TEXT: Schema = {"type": "string"}
_COUNT = schema_of(Count)
_PATH_TYPES: dict[str, Any] = {
    "job_id": JobId,
    "fence": Count,
    "seq": Count,
    "name": Name,
    "kind": Name,
    "queue": Name,
    "schedule": Name,
    "file": FileName,
    "upload_id": JobId,
    "owner": Name,
    "key_id": KeyId,
}

_KEYS = "An API key, `ck_...`. Create one with `coatcheck keys create` or `POST /v1/keys`."
_OPERATOR_ONLY = {
    Access.TENANT: "",
    Access.HANDLER_CHECKED: "",
    Access.OPERATOR: ", with a key of the operator's tenant",
}

# The operations on a job, linked from the response that creates it.
_JOB_OPERATIONS = (
    *("getJob", "getResult", "getSteps", "getEvents"),
    *("sendEvent", "cancelJob", "resumeJob", "forkJob", "deleteJob"),
)
_HEADERS: dict[str, tuple[str, Schema]] = {
    "Location": ("The path of the resource.", _TEXT),
    "Retry-After": ("Seconds to wait before the next request.", _COUNT),
    "ETag": ("Changes with the content.", _TEXT),
    "Accept-Ranges": ("`bytes`: range requests are supported.", _TEXT),
    "Content-Disposition": ("The file name for a download.", _TEXT),
    "Content-Range": ("The range of this part, and the size of the file.", _TEXT),
    "Preference-Applied": ("The preferences of `Prefer` that were applied.", _TEXT),
    "Idempotency-Replayed": ("`true` if an earlier request with this key did the work.", _TEXT),
}

# Every component except those of the declared kinds.
_DOCUMENTS: tuple[type, ...] = (
    *(jobs.JobDocument, jobs.JobPage, jobs.ErrorDocument, jobs.ReceiptDocument),
    *(jobs.ArtifactDocument, jobs.ArtifactPage, jobs.UploadDocument, jobs.SignedUploadDocument),
    *(jobs.BatchDocument, jobs.CardDocument, jobs.StepDocument, jobs.StepPage),
    *(jobs.EventDocument, jobs.EventPage),
    *(schedules.ScheduleDocument, schedules.SchedulePage, schedules.TicksDocument),
    *(workers.ClaimDocument, workers.ClaimsDocument, workers.HeartbeatDocument),
    *(webhooks.WebhookDocument, webhooks.NewWebhook, webhooks.WebhookPage),
    *(webhooks.SecretDocument, webhooks.NewSecret, webhooks.WebhookMessage),
    *(webhooks.DeliveryDocument, webhooks.DeliveryPage, webhooks.RedeliveredDocument),
    *(access.KeyDocument, access.NewKey, access.KeyPage, access.UsagePage),
    *(access.TenantDocument, access.TenantPage, access.AuditEntryDocument, access.AuditPage),
    *(server.KindDocument, server.KindPage, server.ProblemDocument, server.StatusDocument),
    *(server.QueueDocument, server.QueuePage, server.ServerDocument),
    *(server.WorkerPage, server.ThroughputDocument),
)
_REQUESTS: tuple[type, ...] = (
    *(JobRequest, ForkRequest, ResumeRequest, CancelRequest, DeleteRequest, SignedRequest),
    *(ScheduleRequest, JobWebhook, WebhookRequest, QueueRequest),
    *(ClaimRequest, CompleteRequest, FailRequest, ProgressRequest),
    *(StepRequest, StepError, StepsRequest, KeyRequest, TenantRequest, QuotasRequest),
)
_BY_NAME = {component_name(each): each for each in (*_DOCUMENTS, *_REQUESTS)}
_BY_NAME["DoneToJobs"] = jobs.BulkResultDocument  # a released name


@cache
def _components() -> dict[str, Schema]:
    return {name: schema_of(each, _BY_NAME) for name, each in _BY_NAME.items()}


def openapi(endpoints: Sequence[Endpoint], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    shown = [endpoint for endpoint in endpoints if not endpoint.hidden]
    paths: dict[str, Any] = {}
    for endpoint in shown:
        path = _PATH_NAME.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Coatcheck",
            "version": version("coatcheck"),
            "description": "Durable jobs over HTTP: submit work, get an id, fetch the result.",
        },
        # The empty entry: a server without keys needs none.
        "security": [{"bearer": []}, {"apiKey": []}, {}],
        "paths": paths,
        "webhooks": webhook_messages(),
        "components": {
            "schemas": {**_components(), **_kind_schemas(kinds)},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": _KEYS},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        "tags": [{"name": tag} for tag in dict.fromkeys(endpoint.tag for endpoint in shown)],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": endpoint.description or (endpoint.handler.__doc__ or "").strip(),
        "tags": [endpoint.tag],
        "parameters": [
            *(_path_parameter(name) for name in _PATH_NAME.findall(endpoint.path)),
            *(_parameter(found) for found in endpoint.parameters),
            *([_parameter(TENANT)] if endpoint.takes_tenant else []),
        ],
        "responses": {
            **{str(status): _response(found) for status, found in endpoint.responses.items()},
            **{str(status): _error(status, endpoint) for status in _error_statuses(endpoint)},
        },
    }
    if endpoint.access is Access.PUBLIC:
        operation["security"] = []
    elif endpoint.scope is not None:
        operation["description"] += (
            f"\n\nScope: `{endpoint.scope}`{_OPERATOR_ONLY[endpoint.access]}."
        )
    if endpoint.body is not None:
        operation["requestBody"] = {
            "description": endpoint.body.description,
            "required": endpoint.body.required,
            "content": {media: {"schema": of} for media, of in endpoint.body.media.items()},
        }
    return operation


def _error_statuses(endpoint: Endpoint) -> list[int]:
    named = (404,) if endpoint.access is Access.TENANT else ()  # an unknown tenant
    with_key = () if endpoint.access is Access.PUBLIC else KEY_ERRORS
    return sorted({*COMMON_ERRORS, *endpoint.error_statuses, *named, *with_key})


def _path_parameter(name: str) -> dict[str, Any]:
    schema = schema_of(_PATH_TYPES.get(name, str))  # surfaces have parameters of their own
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(found: Parameter) -> dict[str, Any]:
    return {
        "name": found.name,
        "in": found.location,
        "required": found.required,
        "description": found.description,
        "schema": found.schema,
    }


def _response(response: EndpointResponse) -> dict[str, Any]:
    described: dict[str, Any] = {"description": response.description}
    if response.media:
        described["content"] = {media: {"schema": of} for media, of in response.media.items()}
    if response.headers:
        described["headers"] = {
            name: {"description": _HEADERS[name][0], "schema": _HEADERS[name][1]}
            for name in response.headers
        }
    if response.links_to_job:
        described["links"] = {
            name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}}
            for name in _JOB_OPERATIONS
        }
    return described


def _error(status: int, endpoint: Endpoint) -> dict[str, Any]:
    media = {PROBLEM: ref("Problem")} if endpoint.error_media is None else endpoint.error_media
    return {
        "description": HTTPStatus(status).phrase,
        "content": {name: {"schema": schema} for name, schema in media.items()},
    }


def _kind_schemas(kinds: Mapping[str, Kind]) -> dict[str, Schema]:
    if not kinds:
        return {}
    found: dict[str, Schema] = {}
    requests = []
    general = _components()["JobRequest"]
    for name in sorted(kinds):
        plain = _component_name(name)
        # Separate components: a model may have another schema as input than as output.
        found |= _named(kinds[name].input_schema, f"{plain}.input")
        found |= _named(kinds[name].result_schema, f"{plain}.result")
        request = {**general, "properties": {**general["properties"]}, "title": f"{name} job"}
        request["properties"]["kind"] = {"const": name}
        request["properties"]["input"] = ref(f"{plain}.input")
        if not _accepts_null(kinds[name]):
            request["required"] = ["kind", "input"]
        found[f"{plain}.job"] = request
        requests.append(ref(f"{plain}.job"))
    found["JobRequest"] = {"anyOf": requests}
    return found


def _component_name(kind: str) -> str:
    """Replace colons, which component names cannot have. Distinct kinds get distinct names."""
    return kind.replace("-", "--").replace(":", "-.")


def _named(make: Callable[[str], Schema], name: str) -> dict[str, Schema]:
    """Return a schema and the models that it refers to, each as a component."""
    schema = make(f"#/components/schemas/{name}.{{model}}")
    models = schema.pop("$defs", {})
    return {name: schema, **{f"{name}.{model}": of for model, of in models.items()}}


def _accepts_null(kind: Kind) -> bool:
    try:
        kind.check_input("null")
    except InvalidPayload:
        return False
    return True
