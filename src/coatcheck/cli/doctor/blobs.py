"""The blob store: where it is, and whether it takes what it is given."""

from __future__ import annotations

from collections.abc import Iterator

from coatcheck.blobs.open import bucket_for
from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.errors import BlobStoreUnavailable, CoatcheckError
from coatcheck.settings import Settings

AREA = "blobs"
_WRONG = "correct COATCHECK_BLOBS (--blobs), or what it may do"


async def look_at_blobs(settings: Settings, database_scheme: str) -> list[Finding]:
    """Look whether blobs can be written where the settings say; nothing is left behind."""
    return list(_look(settings, database_scheme))


def _look(settings: Settings, database_scheme: str) -> Iterator[Finding]:
    try:
        bucket = bucket_for(settings)
        bucket.check()
    except BlobStoreUnavailable as error:
        yield problem(AREA, str(error), "large inputs and results are refused until it is back")
    except CoatcheckError as error:
        yield problem(AREA, str(error), _WRONG)
    else:
        yield ok(AREA, f"{bucket.location} takes writes")
        if not settings.blobs and database_scheme in ("postgresql", "postgres"):
            said = "blobs are in a folder of this machine, and the database is not"
            advice = "name a place that all machines reach: COATCHECK_BLOBS=s3://bucket"
            yield warning(AREA, said, advice)
