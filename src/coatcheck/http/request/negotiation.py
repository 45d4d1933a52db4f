"""What every call asks of a request before it does anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.http.endpoint import ANY, Endpoint

_PROBLEM = "application/problem+json"
_NOT_WANTED = re.compile(r"q=0(\.0{0,3})?")


def check_request(request: Request, endpoint: Endpoint) -> None:
    """Refuse query parameters that mean nothing here (400) and callers who take no answer of ours
    (406); where an answer has no content, there is nothing to take. Nothing has a name with a NUL
    character in it (404), and not every store can even look for one.
    """
    if "\0" in request.scope["path"] and request.method in ("GET", "HEAD", "DELETE"):
        raise HTTPException(404, "there is nothing whose name has a NUL character in it")
    if request.scope["query_string"] and not endpoint.forwards_query:
        _check_query(request.query_params, endpoint)
    accept, produced = request.headers.get("accept", "*/*"), endpoint.produces
    if accept == "*/*" or not produced or ANY in produced or _accepts(accept, produced):
        return
    raise HTTPException(406, f"the answer is {', '.join(sorted(produced))}, which is not accepted")


def _check_query(given: QueryParams, endpoint: Endpoint) -> None:
    unknown = set(given) - endpoint.query_names
    if unknown:
        raise HTTPException(400, f"unknown query parameter: {min(unknown)!r}")
    for found in endpoint.parameters:
        if not found.repeated and len(given.getlist(found.name)) > 1:
            raise HTTPException(400, f"the query parameter {found.name!r} is there twice")


@lru_cache(maxsize=256)
def _accepts(accept: str, produced: frozenset[str]) -> bool:
    wanted = set(accepted_types(accept))
    offered = {*produced, _PROBLEM}
    ranges = {f"{media.partition('/')[0]}/*" for media in offered}
    return not wanted or bool(wanted & (offered | ranges | {"*/*"}))


def accepted_types(accept: str) -> Iterable[str]:
    """Return the media types an Accept header names, those with q=0 left out."""
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        refused = any(_NOT_WANTED.fullmatch(parameter) for parameter in parameters)
        if media and not refused:
            yield media
