"""A surface: a door of another shape onto the same engine.

Somebody has a document that says what their clients send and get. A surface translates between that
and the engine's verbs, and holds nothing else: no SQL, no state of jobs, no rules of its own about
what may follow what. It brings

- the kinds of jobs behind it, declared in `declare` with its own figures (retention, retries, ...);
- its calls, in the same table as the canonical ones (endpoint.py), so that keys, scopes, tenants,
  OpenAPI and the checks of every request hold for them without a word;
- the way in which a refusal is written on its paths (`prefixes`), whoever refuses;
- how one of its jobs is shown at `GET /jobs/{id}`, an address that several surfaces share: the job
  says whose it is;
- which steps its jobs go through, where their card is to show those to come (`planned`);
- where a result of its jobs is something else than JSON, how it is answered at
  `GET /v1/jobs/{id}/result` (`result`);
- who may read its jobs, if not everybody in their tenant (`check_reader`, asked by readers.py).

Small documents of its own go through the store's `records`. It is used by `app.use(surface)`, and
found by `coatcheck serve` without an app when a package names it as an entry point of the group
`coatcheck.surfaces` (docs/how-to/write-a-surface.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.errors import ErrorResponse, as_problem
from coatcheck.http.jobs.card_view import PlannedStep
from coatcheck.model.job import Job
from coatcheck.settings import Settings


class SurfaceDisabled(Exception):
    """Raised by what makes a surface of an entry point where nothing here asks for it: `coatcheck
    serve` leaves it out. The words say what would.
    """


class OptionalPart(NamedTuple):
    """Something a surface can use, as `coatcheck doctor` tells of it."""

    says: str
    missing: str = ""  # what to do to have it; nothing where it is there


class Surface(ABC):
    """What every surface is made of; one of them says what it needs of it."""

    name: str
    # Below these its own shape of a refusal holds.
    prefixes: tuple[str, ...] = ()
    endpoints: Sequence[Endpoint] = ()
    # Whether its jobs are shown at GET /jobs/{id}.
    shows_jobs = False

    @abstractmethod
    def declare(self, app: App) -> None:
        """Declare the kinds of jobs behind it."""

    def configure(self, settings: Settings) -> None:  # noqa: B027 - most need nothing of it
        """Take what the operator has set; called in each process before anything is served."""

    async def close(self) -> None:  # noqa: B027 - most have nothing open
        """Let go of what it has opened; called in each process when it stops."""

    async def tidy(self, engine: Engine) -> None:  # noqa: B027 - most leave nothing about
        """Clear away what its jobs have left outside of them, a bounded amount; called with every
        sweep, in each process that has it.
        """

    async def result(self, request: Request, job: Job) -> Response | None:  # noqa: ARG002
        """Answer with the result of one of its jobs that succeeded; None: as JSON."""
        return None

    def check_reader(self, request: Request, job: Job) -> None:  # noqa: B027 - for most anybody may
        """Raise NotFound unless a caller may read one of its jobs, or a fork of it."""

    def planned(self, job: Job) -> Sequence[PlannedStep]:  # noqa: ARG002 - most do not know
        """List the steps that a job goes through, in order, for its card; none for a job of a kind
        that is not its own.
        """
        return ()

    def refuse(self, refusal: ErrorResponse, path: str) -> Response:
        """Write a refusal in the words of its document."""
        return as_problem(refusal, path)

    def parts(self) -> Iterable[OptionalPart]:
        """List what it can use here, and what it misses."""
        return ()

    async def health(self) -> Mapping[str, Any]:
        """Say what `/healthz` is to tell beside that this process lives; it must not take long."""
        return {}

    async def show(self, request: Request, job: Job) -> Response:  # noqa: ARG002
        """Show one of its jobs; those of a surface that shows none are not there."""
        raise NotFound(f"job {job.public_id} is not shown here")
