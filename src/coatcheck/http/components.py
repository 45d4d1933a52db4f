"""Every shape of what the API takes and answers, by its name in OpenAPI."""

from __future__ import annotations

from coatcheck.http.access_schemas import access_components
from coatcheck.http.audit_routes import audit_components
from coatcheck.http.endpoint import Schema
from coatcheck.http.job_schemas import job_components
from coatcheck.http.operating_schemas import operating_components
from coatcheck.http.schedule_schemas import schedule_components
from coatcheck.http.webhook_schemas import webhook_components
from coatcheck.http.work_schemas import work_components


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
