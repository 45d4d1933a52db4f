"""A surface: an API of another shape on the same engine.

A surface translates between the requests and responses that its clients' document specifies and the
engine's verbs. It has no SQL, no job state and no transition rules of its own. A surface provides:

- the kinds of its jobs, declared in `declare` with its own retention, retries and timeouts;
- its endpoints, in the same table as the canonical ones (endpoint.py). Keys, scopes, tenants,
  OpenAPI and request checks therefore apply to them without further code;
- the error format of its paths (`prefixes`, `format_error`), whatever part rejects a request;
- the view of its jobs at `GET /jobs/{id}`, a path that several surfaces share. The job's surface
  decides which one shows it;
- the planned steps of its jobs, so that a job's card can show steps that have not started
  (`planned_steps`);
- the response at `GET /v1/jobs/{id}/result`, if results are not JSON (`result`);
- who may read its jobs, if not everyone in their tenant (`check_reader`; see auth/readers.py).

Small documents of a surface go through the store's `records`. An app adds a surface with
`app.use(surface)`. `coatcheck serve` without an app finds surfaces by the entry-point group
`coatcheck.surfaces` (docs/how-to/write-a-surface.md).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.errors import ErrorResponse, format_problem
from coatcheck.http.jobs.card_view import PlannedStep
from coatcheck.model.job import Job
from coatcheck.settings import Settings

# Methods as they were called before 0.1: a subclass that defines one still works, with a warning.
_FORMER_NAMES = {
    "refuse": "format_error",
    "planned": "planned_steps",
    "tidy": "sweep",
    "parts": "optional_parts",
    "show": "show_job",
}


class SurfaceDisabled(Exception):
    """Raised by a surface's entry point if the settings do not enable it.

    `coatcheck serve` then skips the surface. The message says which setting enables it.
    """


class OptionalPart(NamedTuple):
    """An optional dependency of a surface, as `coatcheck doctor` reports it."""

    says: str
    missing: str = ""  # how to install it; empty if it is there


class Surface(ABC):
    """The base class of surfaces. A subclass overrides only the methods it needs."""

    name: str
    # Errors below these path prefixes have the surface's own format.
    prefixes: tuple[str, ...] = ()
    endpoints: Sequence[Endpoint] = ()
    # Whether its jobs are shown at GET /jobs/{id}.
    shows_jobs = False

    def __init_subclass__(cls) -> None:
        for former, name in _FORMER_NAMES.items():
            if former in cls.__dict__ and name not in cls.__dict__:
                message = f"{cls.__name__}.{former} is called {name} now; rename it"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                setattr(cls, name, cls.__dict__[former])

    @abstractmethod
    def declare(self, app: App) -> None:
        """Declare the kinds of its jobs."""

    def configure(self, settings: Settings) -> None:  # noqa: B027 - optional
        """Read the settings. Called once in each process, before it serves or works."""

    async def close(self) -> None:  # noqa: B027 - optional
        """Close open resources. Called in each process when it stops."""

    async def sweep(self, engine: Engine) -> None:  # noqa: B027 - optional
        """Delete a bounded amount of data that its jobs left outside the store.

        Called with every sweep, in each process that has the surface.
        """

    async def result(self, request: Request, job: Job) -> Response | None:  # noqa: ARG002
        """Build the response for the result of a job that succeeded; None for plain JSON."""
        return None

    def check_reader(self, request: Request, job: Job) -> None:  # noqa: B027 - optional
        """Raise NotFound unless the caller may read this job, or a fork of it."""

    def planned_steps(self, job: Job) -> Sequence[PlannedStep]:  # noqa: ARG002
        """List the steps that a job goes through, in order, for its card.

        Return nothing for a job of a kind that is not the surface's own.
        """
        return ()

    def format_error(self, error: ErrorResponse, path: str) -> Response:
        """Serialize an error in the surface's own format."""
        return format_problem(error, path)

    def optional_parts(self) -> Iterable[OptionalPart]:
        """List the optional dependencies, installed or missing."""
        return ()

    async def health(self) -> Mapping[str, Any]:
        """Return members to add to `/healthz`. This method must return quickly."""
        return {}

    async def show_job(self, request: Request, job: Job) -> Response:  # noqa: ARG002
        """Build the response for one of its jobs at `GET /jobs/{id}`."""
        raise NotFound(f"job {job.public_id} is not shown here")
