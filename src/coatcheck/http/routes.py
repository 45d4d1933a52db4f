"""The table of all calls: what is routed, checked and documented is what stands here."""

from __future__ import annotations

from coatcheck.http.access_routes import ACCESS
from coatcheck.http.artifact_routes import ARTIFACTS
from coatcheck.http.audit_routes import AUDIT
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.job_routes import JOBS
from coatcheck.http.operating_routes import OPERATING, PAGES
from coatcheck.http.schedule_routes import SCHEDULES
from coatcheck.http.steering_routes import STEERING
from coatcheck.http.upload_routes import UPLOADS
from coatcheck.http.webhook_routes import WEBHOOKS
from coatcheck.http.work_routes import WORK

ENDPOINTS: tuple[Endpoint, ...] = (
    *(*JOBS, *ARTIFACTS, *UPLOADS, *STEERING, *WORK, *SCHEDULES, *WEBHOOKS),
    *(*ACCESS, *AUDIT, *OPERATING, *PAGES),
)
