"""Fetch a document from a URL that a caller named.

Every request goes through the egress policy (coatcheck/egress): public addresses only, unless the
operator allows others. The target of a redirect is checked like the first URL. The response is
limited in bytes, and all requests together in time.
"""

from __future__ import annotations

import asyncio
import hashlib
from urllib.parse import unquote, urljoin, urlsplit

from pydantic import BaseModel, ConfigDict

from coatcheck.egress.outbound import OutboundClient, OutboundResponse
from coatcheck.egress.policy import EgressPolicy
from coatcheck.errors import EgressDenied, EgressFailed, Fail, Retry

MAX_REDIRECTS = 5
HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "User-Agent": "coatcheck-ingest",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Responses that may differ on the next attempt.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class FetchedDocument(BaseModel):
    """A fetched document. It is the result of the fetch step, so it is not fetched again."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    url: str  # after redirects
    media_type: str | None
    sha256: str
    content: bytes


async def fetch_document(
    url: str, guard: EgressPolicy, most_bytes: int, seconds: float
) -> FetchedDocument:
    """Fetch a document; raise Fail for a permanent error, Retry for a transient one."""
    outbound = OutboundClient(guard)
    try:
        async with asyncio.timeout(seconds):
            return await _follow(outbound, url, most_bytes, seconds)
    except TimeoutError:
        raise Retry(f"the URL did not respond within {seconds:g} s") from None
    except EgressDenied as error:
        raise Fail(error.code, str(error)) from None
    except EgressFailed as error:
        raise Retry(f"the URL could not be fetched: {error}") from None
    finally:
        await outbound.close()


async def _follow(
    outbound: OutboundClient, url: str, most_bytes: int, seconds: float
) -> FetchedDocument:
    for _ in range(MAX_REDIRECTS + 1):
        response = await outbound.send("GET", url, HEADERS, timeout_s=seconds, max_bytes=most_bytes)
        location = response.headers.get("location")
        if response.status not in _REDIRECTS or location is None:
            return _to_document(url, response, most_bytes)
        url = urljoin(url, location).partition("#")[0]
    raise Fail("fetch-failed", f"the URL redirects more than {MAX_REDIRECTS} times")


def _to_document(url: str, response: OutboundResponse, most_bytes: int) -> FetchedDocument:
    if response.status in _TRANSIENT:
        raise Retry(f"the URL responded with {response.status}")
    if response.status != 200:
        raise Fail("fetch-failed", f"the URL responded with {response.status}")
    if response.truncated:
        raise Fail("document-too-large", f"the document is larger than {most_bytes:,} bytes")
    media_type = response.headers.get("content-type")
    sha256 = hashlib.sha256(response.body).hexdigest()
    return FetchedDocument(url=url, media_type=media_type, sha256=sha256, content=response.body)


def file_name_of(url: str) -> str:
    """Return the file name in a URL, for format detection by its extension."""
    return unquote(urlsplit(url).path.rpartition("/")[2]) or "index.html"
