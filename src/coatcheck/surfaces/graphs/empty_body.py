"""The body of a request that needs none: somebody who comes back for their job.

The key is in the headers, so a job is found before anything of the body is read. A client that asks
first (`Expect: 100-continue`) never has to send it. One that sends it anyway is listened to for a
while, as most cannot read an answer before they are through; nothing of it is kept. If that is too
much, or takes too long, it is answered all the same, and the connection ends with the answer: what
is still on its way then must not be taken for the next request.
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
    """Let the body of a request pass; return the headers that its answer needs for it."""
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
