"""OpenAPI 3.1, generated from the table of calls and the kinds that are declared.

A submission is described for each kind apart, with the schema of its input, so that what a
generated client lets through fits; the schema of a kind's result stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from coatcheck.errors import InvalidPayload
from coatcheck.http.components import components
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
from coatcheck.http.json_schema import COUNT, FILE_NAME, ID, KEY_ID, NAME, TEXT
from coatcheck.http.webhooks.endpoints import told
from coatcheck.model.kind import Kind

# What can happen to any call: a bad parameter, no key or one that is not for this, a tenant that
# has not paid, a caller from elsewhere, one that takes no JSON, a store that is away.
ALWAYS = (400, 401, 402, 403, 406, 503)
# What can happen to any call that is made with a key: its tenant has too many requests open.
WITH_KEY = (429,)
_PATH_NAME = re.compile(r"\{(\w+)(?::\w+)?\}")
_PATH_SCHEMAS = {
    "job_id": ID,
    "fence": COUNT,
    "seq": COUNT,
    "name": NAME,
    "kind": NAME,
    "queue": NAME,
}
_PATH_SCHEMAS |= {"schedule": NAME, "file": FILE_NAME, "upload_id": ID}
_PATH_SCHEMAS |= {"webhook": TEXT, "delivery": TEXT, "owner": NAME, "key_id": KEY_ID}

_KEYS = "A key, `ck_...`: made by `coatcheck keys create` or `POST /v1/keys`."
_OPERATOR_ONLY = {
    Access.TENANT: "",
    Access.HANDLER_CHECKED: "",
    Access.OPERATOR: ", of the operator's tenant",
}

# Where the id of a new job leads.
_ON_A_JOB = (
    *("getJob", "getResult", "getSteps", "getEvents"),
    *("sendEvent", "cancelJob", "resumeJob", "forkJob", "deleteJob"),
)
_HEADERS: dict[str, tuple[str, Schema]] = {
    "Location": ("Where it is.", TEXT),
    "Retry-After": ("In how many seconds it is worth asking again.", COUNT),
    "ETag": ("Changes when what was asked for does.", TEXT),
    "Accept-Ranges": ("`bytes`: parts can be asked for.", TEXT),
    "Content-Disposition": ("The name to save it under.", TEXT),
    "Content-Range": ("Which part this is, and of how much.", TEXT),
    "Preference-Applied": ("Which of the wishes in `Prefer` were heard.", TEXT),
    "Idempotency-Replayed": ("`true`: an earlier request under this key did it.", TEXT),
}


def openapi(endpoints: Sequence[Endpoint], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Describe the API."""
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
            "description": "Hand in slow work, get a ticket, come back for the result.",
        },
        # The last one: a server that has no keys yet asks for none.
        "security": [{"bearer": []}, {"apiKey": []}, {}],
        "paths": paths,
        "webhooks": told(),
        "components": {
            "schemas": {**components(), **_kind_schemas(kinds)},
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
            **{str(status): _answer(answer) for status, answer in endpoint.responses.items()},
            **{str(status): _refusal(status, endpoint) for status in _refusals(endpoint)},
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


def _refusals(endpoint: Endpoint) -> list[int]:
    named = (404,) if endpoint.access is Access.TENANT else ()  # a tenant that is not there
    with_key = () if endpoint.access is Access.PUBLIC else WITH_KEY
    return sorted({*ALWAYS, *endpoint.error_statuses, *named, *with_key})


def _path_parameter(name: str) -> dict[str, Any]:
    schema = _PATH_SCHEMAS.get(name, TEXT)  # surfaces have names of their own
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(found: Parameter) -> dict[str, Any]:
    return {
        "name": found.name,
        "in": found.location,
        "required": found.required,
        "description": found.description,
        "schema": found.schema,
    }


def _answer(answer: EndpointResponse) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.media:
        described["content"] = {media: {"schema": of} for media, of in answer.media.items()}
    if answer.headers:
        described["headers"] = {
            name: {"description": _HEADERS[name][0], "schema": _HEADERS[name][1]}
            for name in answer.headers
        }
    if answer.links_to_job:
        described["links"] = {
            name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}}
            for name in _ON_A_JOB
        }
    return described


def _refusal(status: int, endpoint: Endpoint) -> dict[str, Any]:
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
    general = components()["JobRequest"]
    for name in sorted(kinds):
        plain = _component_name(name)
        # Apart, since a model may look different on its way in and on its way out.
        found |= _named(kinds[name].input_schema, f"{plain}.input")
        found |= _named(kinds[name].result_schema, f"{plain}.result")
        request = {**general, "properties": {**general["properties"]}, "title": f"{name} job"}
        request["properties"]["kind"] = {"const": name}
        request["properties"]["input"] = ref(f"{plain}.input")
        if not _takes_nothing(kinds[name]):
            request["required"] = ["kind", "input"]
        found[f"{plain}.job"] = request
        requests.append(ref(f"{plain}.job"))
    found["JobRequest"] = {"anyOf": requests}
    return found


def _component_name(kind: str) -> str:
    """Write a kind's name without colons, which a component's has not; no two get the same."""
    return kind.replace("-", "--").replace(":", "-.")


def _named(make: Callable[[str], Schema], name: str) -> dict[str, Schema]:
    """Return a schema and the models it refers to, each as a component of its own."""
    schema = make(f"#/components/schemas/{name}.{{model}}")
    models = schema.pop("$defs", {})
    return {name: schema, **{f"{name}.{model}": of for model, of in models.items()}}


def _takes_nothing(kind: Kind) -> bool:
    try:
        kind.check_input("null")
    except InvalidPayload:
        return False
    return True
