"""Which surface a job came in by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request

from coatcheck.model.job import Job

if TYPE_CHECKING:  # a surface is made of calls, and these look for theirs
    from coatcheck.http.surface import Surface


def surface_of(request: Request, job: Job) -> Surface | None:
    """Return the surface of a job, where it is in use here."""
    surfaces: Mapping[str, Surface] = request.app.state.surfaces
    return surfaces.get(job.surface)
