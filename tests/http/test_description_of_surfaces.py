"""The description is true of every surface, and a request that it allows is not refused.

`positive_data_acceptance` is on: a request that fits its schema has to be taken. It is off for the
few calls whose schema cannot say what they take, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.processes import running
from tests.http.described import find_differences
from tests.http.every_surface import upstream, write_config

pytestmark = pytest.mark.timeout(300)

GIVEN_OUT = "a cursor is one that was given out"
OWN_RULES = "the input has rules that JSON Schema cannot say, or an address that is not called"
# What JSON Schema cannot say of these; nor of any listing that goes on from a cursor.
BEYOND_SCHEMA = {
    "/v1/jobs": OWN_RULES,
    "/v1/batches": OWN_RULES,
    "/v1/resumptions": GIVEN_OUT,
    "/v1/cancellations": GIVEN_OUT,
    "/v1/deletions": GIVEN_OUT,
    "/v1/jobs/{job_id}/fork": "a step is one that the job has",
    "/v1/jobs/{job_id}/leases/{fence}/complete": "the result fits the job's kind",
    "/v1/jobs/{job_id}/leases/{fence}/steps": "a key excludes an occurrence",
    "/v1/schedules/{schedule}": "a cron line, and an input that fits its kind",
    "/v1/ingest": "the metadata is JSON in a field of a form",
    "/v1/signed-uploads": "a folder signs no addresses",
    "/v1/webhooks/{webhook}": "the address is one that may be called",
    "/v1/graphs/call": "the body is a zip archive",
    "/v1/graphs/dependency": "the body is a zip archive",
    "/v1/graphs/parse": "the body is a zip archive",
    "/v1/graphs/domain": "the body is a zip archive",
    "/v1/graphs/all": "the body is a zip archive",
    "/render": "the source is a diagram",
    "/api/tasks": "the command is one that the policy allows",
    "/api/validation/command": "the command is one that the policy allows",
    "/mcp": "the method is one of MCP's",
    "/v1/models/{model}": "a model's name has rules of its own",
    "/api/embed": "any type is taken, and then read as JSON with a model's name",
    "/api/embeddings": "any type is taken, and then read as JSON with a model's name",
    "/api/show": "any type is taken, and then read as JSON with a model's name",
    "/v1/embeddings": "any type is taken, and then read as JSON with a model's name",
    "/jobs": "any type is taken, and then read as JSON with a model's name",
}
# Keys would lock the rest out; the others hold the line until a worker answers.
NOT_CALLED = (
    *("/v1/keys", "/v1/keys/{key_id}", "/v1/claims", "/v1/jobs/{job_id}/events"),
    *("/api/chat", "/api/generate", "/v1/chat/completions", "/v1/completions", "/reports/{rest}"),
)

_CHECKS = """
request-timeout = 30.0

[checks]
enabled = false
not_a_server_error.enabled = true
status_code_conformance.enabled = true
positive_data_acceptance.enabled = true
# Beside what is so by default: what was deleted is gone.
positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 410, "5xx"]
"""


def _listings(paths: dict[str, Any]) -> set[str]:
    """Return the paths of the calls that take a cursor."""
    return {
        path
        for path, calls in paths.items()
        for call in calls.values()
        if any(each["name"] == "cursor" for each in call.get("parameters", ()))
    }


def _config(beyond_schema: Iterable[str]) -> str:
    operations = "".join(
        f'\n[[operations]]\ninclude-path = "{path}"\n'
        "checks.positive_data_acceptance.enabled = false\n"
        for path in sorted(beyond_schema)
    )
    # A NUL in a string of a JSON body is refused everywhere, which no schema says.
    return f"{_CHECKS}\n[generation]\nallow-x00 = false\n{operations}"


def test_requests_that_fit_are_taken_and_every_status_is_described(tmp_path: Path) -> None:
    excluded = [part for path in NOT_CALLED for part in ("--exclude-path", path)]
    with upstream() as target:
        config = write_config(tmp_path, target)
        command = ("serve", "--config", str(config), "--port", "0", "--in-process")
        with running(*command, folder=tmp_path) as server:
            url = server.url()
            known = httpx2.get(f"{url}/openapi.json", timeout=30).json()["paths"]
            assert {*BEYOND_SCHEMA, *NOT_CALLED} <= set(known), "the lists above are true"
            found = find_differences(
                url,
                tmp_path,
                *("--phases", "examples,fuzzing", "--max-examples", "8"),
                *excluded,
                config=_config({*BEYOND_SCHEMA, *_listings(known)}),
            )
    if found:
        pytest.fail(found, pytrace=False)  # all of it, and not a part
