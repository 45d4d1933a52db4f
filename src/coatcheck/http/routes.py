"""The table of all endpoints of the canonical API."""

from __future__ import annotations

from coatcheck.http.access.endpoints import ACCESS
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.files.artifacts import ARTIFACTS
from coatcheck.http.files.uploads import UPLOADS
from coatcheck.http.jobs.bulk import BULK
from coatcheck.http.jobs.card import CARDS
from coatcheck.http.jobs.endpoints import JOBS
from coatcheck.http.jobs.steps import STEPS
from coatcheck.http.schedules.endpoints import SCHEDULES
from coatcheck.http.server.endpoints import PAGES, SERVER
from coatcheck.http.webhooks.endpoints import WEBHOOKS
from coatcheck.http.workers.endpoints import WORKERS

ENDPOINTS: tuple[Endpoint, ...] = (
    *(*JOBS, *ARTIFACTS, *UPLOADS, *STEPS, *CARDS, *BULK, *WORKERS, *SCHEDULES, *WEBHOOKS),
    *(*ACCESS, *SERVER, *PAGES),
)
