"""Every shape of what the API takes and answers, by its name in OpenAPI."""

from __future__ import annotations

from coatcheck.http.access.audit_endpoints import audit_components
from coatcheck.http.access.schemas import access_components
from coatcheck.http.endpoint import Schema
from coatcheck.http.jobs.schemas import job_components
from coatcheck.http.schedules.schemas import schedule_components
from coatcheck.http.server.schemas import operating_components
from coatcheck.http.webhooks.schemas import webhook_components
from coatcheck.http.workers.schemas import work_components


def components() -> dict[str, Schema]:
    """Return them all."""
    return {
        **job_components(),
        **schedule_components(),
        **work_components(),
        **operating_components(),
        **access_components(),
        **audit_components(),
        **webhook_components(),
    }
