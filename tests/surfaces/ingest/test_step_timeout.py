"""A document that keeps a parser busy fails once, and its process is free for the next."""

from __future__ import annotations

import pytest

from coatcheck.surfaces.ingest.settings import STEP_SECONDS

from .conftest import Serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

DEPTH, LINES = 30, 8_000_000
LIMIT_S = 6


def slow_mail() -> bytes:
    """Return a message that takes about a minute: each line may end any of the enclosing parts."""
    part = 'Content-Type: multipart/mixed; boundary="{0}"\n\n--{0}\n'
    return "".join(map(part.format, range(DEPTH))).encode() + b"\n" * LINES


async def test_step_over_its_time_limit_fails_without_a_retry(
    on_each_store: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STEP_SECONDS, str(LIMIT_S))
    async with on_each_store() as ingest:
        job = await ingest.finished(await ingest.send(("slow.eml", slow_mail())))
        assert (job["state"], job["attempt"]) == ("failed", 1)
        assert job["error"]["code"] == "step-timeout"
        assert job["error"]["message"] == f"step 'extract' took longer than {LIMIT_S} s"
        assert (await ingest.ingest_file("next.md", "# Next\n\nThe slot is free."))["passages"] == 1
