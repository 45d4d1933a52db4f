"""A surface for the clients of an older report service.

Its clients POST to /reports and poll /reports/{ticket}. They know three statuses and one error
format. Coatcheck does the rest: a report is a job like any other.

    coatcheck serve examples/own_surface.py:app
    curl -s http://127.0.0.1:8080/reports -H 'content-type: application/json' -d '{"year":2026}'
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck import App, Context
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.endpoint import JSON, Endpoint, EndpointBody, EndpointResponse
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.request.body import read_json
from coatcheck.http.surfaces.base import Surface
from coatcheck.http.surfaces.submit import find_job, submit_job
from coatcheck.model.job import Job
from coatcheck.model.state import State

STATUSES = {State.SUCCEEDED: "READY", State.FAILED: "BROKEN", State.CANCELLED: "BROKEN"}
OBJECT = {JSON: {"type": "object"}}


def write_report(ctx: Context, year: int) -> str:
    """Do the slow work."""
    for month in range(12):
        ctx.progress(month + 1, 12, f"{year}-{month + 1:02}")
    return f"Nothing happened in {year}."


def show(job: Job) -> dict[str, object]:
    """Format a job for those clients."""
    view: dict[str, object] = {"ticket": job.id, "status": STATUSES.get(job.state, "BUSY")}
    if job.state is State.SUCCEEDED:
        view["report"] = json.loads(job.result or "null")
    return view


async def order_report(request: Request) -> Response:
    """Submit a report job."""
    body = await read_json(request)
    year = body.get("year") if isinstance(body, dict) else None
    if type(year) is not int:
        raise HTTPException(400, "the year is missing")
    submission = Submission("report", json.dumps(year), surface=Reports.name)
    return JSONResponse(show(await submit_job(request, submission, body)), 202)


async def get_report(request: Request) -> Response:
    """Return the status of a report."""
    return JSONResponse(show(await find_job(request, request.path_params["job_id"], Reports.name)))


class Reports(Surface):
    """The API of the older report service."""

    name = "reports"
    prefixes = ("/reports",)
    endpoints: Sequence[Endpoint] = (
        Endpoint(
            "POST",
            "/reports",
            order_report,
            "orderReport",
            "Order a report",
            "reports",
            {202: EndpointResponse("A ticket.", OBJECT)},
            error_statuses=(408, 409, 413, 415, 422, 429),
            body=EndpointBody("The year.", OBJECT),
            kind="report",
            error_media=OBJECT,
        ),
        Endpoint(
            "GET",
            "/reports/{job_id}",
            get_report,
            "getReport",
            "Get a report",
            "reports",
            {200: EndpointResponse("The report's status.", OBJECT)},
            kind="report",
            error_media=OBJECT,
        ),
    )

    def declare(self, app: App) -> None:
        app.job("report", timeout="10m", keep_succeeded="1d")(write_report)

    def format_error(self, error: ErrorResponse, path: str) -> Response:
        return JSONResponse({"oops": error.detail}, error.status, error.headers)


app = App()
app.use(Reports())
