"""Fetching a document from an address that somebody else has named.

Every call goes through the egress guard (coatcheck/egress): public addresses only, unless the
operator has opened others. A redirect is another address, and is looked at like the first. What is
fetched is bounded in bytes, and all of it together in time.
"""

from __future__ import annotations

import asyncio
import hashlib
from urllib.parse import unquote, urljoin, urlsplit

from pydantic import BaseModel, ConfigDict

from coatcheck.egress.outbound import OutboundClient, OutboundResponse
from coatcheck.egress.policy import EgressPolicy
from coatcheck.errors import EgressDenied, EgressFailed, Fail, Retry

MOST_REDIRECTS = 5
HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "User-Agent": "coatcheck-ingest",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What may be otherwise the next time.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class FetchedDocument(BaseModel):
    """What an address had, kept as the result of its step: it is not fetched again."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    url: str  # where it was in the end
    media_type: str | None
    sha256: str
    content: bytes


async def fetch_document(
    url: str, guard: EgressPolicy, most_bytes: int, seconds: float
) -> FetchedDocument:
    """Fetch a document; raises Fail where there is none to be had, Retry where that may change."""
    outbound = OutboundClient(guard)
    try:
        async with asyncio.timeout(seconds):
            return await _follow(outbound, url, most_bytes, seconds)
    except TimeoutError:
        raise Retry(f"the address did not answer within {seconds:g} s") from None
    except EgressDenied as error:
        raise Fail(error.code, str(error)) from None
    except EgressFailed as error:
        raise Retry(f"the address could not be fetched: {error}") from None
    finally:
        await outbound.close()


async def _follow(
    outbound: OutboundClient, url: str, most_bytes: int, seconds: float
) -> FetchedDocument:
    for _ in range(MOST_REDIRECTS + 1):
        answer = await outbound.send("GET", url, HEADERS, timeout_s=seconds, max_bytes=most_bytes)
        where = answer.headers.get("location")
        if answer.status not in _REDIRECTS or where is None:
            return _taken(url, answer, most_bytes)
        url = urljoin(url, where).partition("#")[0]
    raise Fail("fetch-failed", f"the address leads on more than {MOST_REDIRECTS} times")


def _taken(url: str, answer: OutboundResponse, most_bytes: int) -> FetchedDocument:
    if answer.status in _PASSING:
        raise Retry(f"the address answered {answer.status}")
    if answer.status != 200:
        raise Fail("fetch-failed", f"the address answered {answer.status}")
    if answer.truncated:
        raise Fail("document-too-large", f"the document is larger than {most_bytes:,} bytes")
    media_type = answer.headers.get("content-type")
    sha256 = hashlib.sha256(answer.body).hexdigest()
    return FetchedDocument(url=url, media_type=media_type, sha256=sha256, content=answer.body)


def file_name_of(url: str) -> str:
    """Return the name that an address gives its document, for what its ending tells."""
    return unquote(urlsplit(url).path.rpartition("/")[2]) or "index.html"
