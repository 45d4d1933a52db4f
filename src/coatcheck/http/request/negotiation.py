"""Checks of every request before its handler runs: path, query parameters and Accept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.http.endpoint import ANY, Endpoint

_PROBLEM = "application/problem+json"
_ZERO_QUALITY = re.compile(r"q=0(\.0{0,3})?")


def check_request(request: Request, endpoint: Endpoint) -> None:
    """Reject unknown query parameters (400), unacceptable `Accept` (406) and NUL in the path (404).

    `Accept` is not checked if the response has no content. No name contains NUL, and PostgreSQL
    cannot search for it.
    """
    if "\0" in request.scope["path"] and request.method in ("GET", "HEAD", "DELETE"):
        raise HTTPException(404, "no name contains a NUL character")
    if request.scope["query_string"] and not endpoint.forwards_query:
        _check_query(request.query_params, endpoint)
    accept, produced = request.headers.get("accept", "*/*"), endpoint.produces
    if accept == "*/*" or not produced or ANY in produced or _accepts(accept, produced):
        return
    raise HTTPException(
        406, f"the response is {', '.join(sorted(produced))}, which Accept does not allow"
    )


def _check_query(given: QueryParams, endpoint: Endpoint) -> None:
    unknown = set(given) - endpoint.query_names
    if unknown:
        raise HTTPException(400, f"unknown query parameter: {min(unknown)!r}")
    for found in endpoint.parameters:
        if not found.repeated and len(given.getlist(found.name)) > 1:
            raise HTTPException(400, f"the query parameter {found.name!r} is given twice")


@lru_cache(maxsize=256)
def _accepts(accept: str, produced: frozenset[str]) -> bool:
    wanted = set(accepted_types(accept))
    offered = {*produced, _PROBLEM}
    ranges = {f"{media.partition('/')[0]}/*" for media in offered}
    return not wanted or bool(wanted & (offered | ranges | {"*/*"}))


def accepted_types(accept: str) -> Iterable[str]:
    """Iterate over the media types of an Accept header, without those with q=0."""
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        excluded = any(_ZERO_QUALITY.fullmatch(parameter) for parameter in parameters)
        if media and not excluded:
            yield media
