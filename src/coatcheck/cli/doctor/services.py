"""Checks of the services: the blob store and the server, with a limit on how long they may take.

A store may never answer, for example if a stopped process holds its write lock. Each check runs in
its own thread and is abandoned after a limit. Python joins executor threads at exit, so the process
must end without an orderly exit if a check was abandoned.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from coatcheck.blobs.open import bucket_for
from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, ApiError, ServerUnreachable
from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.errors import BlobStoreUnavailable, CoatcheckError
from coatcheck.settings import Settings

T = TypeVar("T")

# Longer than a connection attempt to PostgreSQL, and than SQLite waits for a lock.
LIMIT_S = 25.0


class CheckTimedOut(Exception):
    """A check took too long; its thread was abandoned."""


def run_with_limit(check: Callable[[], Coroutine[Any, Any, T]], limit_s: float = LIMIT_S) -> T:
    """Run a coroutine in a thread; raise CheckTimedOut if it takes too long."""
    outcomes: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((asyncio.run(check()), None))
        except Exception as error:  # noqa: BLE001 - raised again in the caller
            outcomes.put((None, error))

    threading.Thread(target=run, name="doctor", daemon=True).start()
    try:
        value, error = outcomes.get(timeout=limit_s)
    except queue.Empty:
        raise CheckTimedOut(f"did not respond within {limit_s:g} s") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # set if there is no error


_BLOBS_ADVICE = "correct COATCHECK_BLOBS (--blobs) or the permissions there"


async def check_blobs(settings: Settings, database_scheme: str) -> list[Finding]:
    """Check whether the configured blob store accepts writes; leave nothing behind."""
    return list(_blob_findings(settings, database_scheme))


def _blob_findings(settings: Settings, database_scheme: str) -> Iterator[Finding]:
    try:
        bucket = bucket_for(settings)
        bucket.check()
    except BlobStoreUnavailable as error:
        yield problem(
            "blobs", str(error), "large inputs and results are rejected until it is available"
        )
    except CoatcheckError as error:
        yield problem("blobs", str(error), _BLOBS_ADVICE)
    else:
        yield ok("blobs", f"{bucket.location} accepts writes")
        if not settings.blobs and database_scheme in ("postgresql", "postgres"):
            message = "blobs are in a local folder, but the database is remote"
            advice = "use a store that all machines can reach: COATCHECK_BLOBS=s3://bucket"
            yield warning("blobs", message, advice)


TIMEOUT_S = 5.0


def check_server(url: str, shown: str, api_key: str | None, *, is_required: bool) -> Finding:
    """Check whether a server is ready. Only a server that was named must be running."""
    try:
        with Api(url, api_key, timeout=TIMEOUT_S) as api:
            kinds = len(api.kinds())
            api.read("/readyz", "status")
    except ServerUnreachable:
        advice = "start one with coatcheck serve MODULE:APP, or choose another with --url"
        return (problem if is_required else warning)("server", f"no server at {shown}", advice)
    except ApiError as error:
        advice = "check its log" if error.exit_code == exit_codes.UNREACHABLE else "correct --url"
        return problem("server", f"{shown} responds: {error}", advice)
    except (LookupError, TypeError):
        return problem("server", f"the server at {shown} is not Coatcheck", "correct --url")
    return ok("server", f"{shown} is ready and has {kinds} kind(s)")
