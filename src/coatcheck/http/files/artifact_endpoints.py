"""The part of the table of calls that gives out what jobs leave behind."""

from __future__ import annotations

from coatcheck.http.endpoint import (
    ANY,
    Endpoint,
    EndpointResponse,
    KindRule,
    Parameter,
    as_json,
    ref,
)
from coatcheck.http.files import artifacts
from coatcheck.http.json_schema import TEXT

_BYTES = {ANY: {"type": "string", "format": "binary"}}
_SAFE = ("ETag", "Accept-Ranges", "Content-Disposition")

ARTIFACTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/artifacts",
        artifacts.list_artifacts,
        "listArtifacts",
        "List the files a job has left behind",
        "jobs",
        {200: EndpointResponse("Every file, by name.", as_json(ref("ArtifactPage")))},
        error_statuses=(404, 410),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/artifacts/{file}",
        artifacts.get_artifact,
        "getArtifact",
        "Get a file a job has left behind",
        "jobs",
        {
            200: EndpointResponse("The file.", _BYTES, _SAFE),
            206: EndpointResponse(
                "The part that was asked for.", _BYTES, (*_SAFE, "Content-Range")
            ),
            304: EndpointResponse("It is still as `If-None-Match` says.", {}, ("ETag",)),
        },
        error_statuses=(404, 410, 416),
        parameters=(
            Parameter("Range", "One range of bytes, such as bytes=0-999.", TEXT, location="header"),
            Parameter("If-Range", "Only of the file with this ETag.", TEXT, location="header"),
            Parameter("If-None-Match", "An ETag given before.", TEXT, location="header"),
        ),
        kind=KindRule.JOB,
        for_lease_holder=True,
    ),
)
