"""The table of all calls: what is routed, checked and documented is what stands here."""

from __future__ import annotations

from coatcheck.http.access.audit_endpoints import AUDIT
from coatcheck.http.access.endpoints import ACCESS
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.files.artifact_endpoints import ARTIFACTS
from coatcheck.http.files.upload_endpoints import UPLOADS
from coatcheck.http.jobs.endpoints import JOBS
from coatcheck.http.jobs.step_endpoints import STEERING
from coatcheck.http.schedules.endpoints import SCHEDULES
from coatcheck.http.server.endpoints import OPERATING, PAGES
from coatcheck.http.webhooks.endpoints import WEBHOOKS
from coatcheck.http.workers.endpoints import WORK

ENDPOINTS: tuple[Endpoint, ...] = (
    *(*JOBS, *ARTIFACTS, *UPLOADS, *STEERING, *WORK, *SCHEDULES, *WEBHOOKS),
    *(*ACCESS, *AUDIT, *OPERATING, *PAGES),
)
