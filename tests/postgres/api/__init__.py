"""The tests of the HTTP API again, over PostgreSQL: each file brings in those of one."""

import pytest

pytest.register_assert_rewrite(
    *(
        f"tests.http.test_{name}"
        for name in (
            "batches",
            "delete",
            "event_pages",
            "explain",
            "fork",
            "idempotency",
            "listing",
            "metrics",
            "missing_jobs",
            "position",
            "queues",
            "remote_steps",
            "result",
            "resume",
            "schedules",
            "sending",
            "steps",
            "stream",
            "webhooks",
        )
    )
)
