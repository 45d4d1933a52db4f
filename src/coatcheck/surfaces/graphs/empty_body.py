"""The body of a request that needs none: a poll for a job that exists.

The key is in the headers, so the job is found before the body is read. A client that sends
`Expect: 100-continue` never has to send the body. If a client sends it anyway, the body is read for
a while and discarded, because most clients cannot read a response before they have sent everything.
If the body is too large or too slow, the response is sent all the same, and the connection is
closed after it: the rest of the body must not be read as the next request.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

from coatcheck.http.request.body import stream_body

MOST_BYTES = 64 * 1024 * 1024
LONGEST_S = 5.0
CLOSE = {"Connection": "close"}


async def let_pass(request: Request) -> dict[str, str]:
    """Discard the body of a request. Returns the headers that the response needs."""
    headers = request.headers
    declared = headers.get("content-length", "0")
    if declared == "0" and "transfer-encoding" not in headers:
        return {}
    asks_first = headers.get("expect", "").strip().lower() == "100-continue"
    too_long = declared.isdecimal() and int(declared) > MOST_BYTES
    if asks_first or too_long or not await _drained(request):
        return CLOSE
    return {}


async def _drained(request: Request) -> bool:
    left = MOST_BYTES
    try:
        async with asyncio.timeout(LONGEST_S):
            async for piece in stream_body(request):
                left -= len(piece)
                if left < 0:
                    return False
    except (TimeoutError, HTTPException):
        return False
    return True
