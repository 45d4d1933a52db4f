"""The app of `coatcheck demo`: one kind, and every installed surface."""

from __future__ import annotations

import math

from coatcheck.surfaces.installed import app_of_surfaces
from coatcheck.worker.steps.context import Context

SEGMENT = 100_000

app = app_of_surfaces()


@app.job(retries=1, timeout="5m")
def count_primes(ctx: Context, below: int) -> int:
    """Count the primes below a number in segments, and report progress."""
    small = _primes_up_to(math.isqrt(below) + 1)
    found = 0
    for start in range(0, below, SEGMENT):
        end = min(start + SEGMENT, below)
        composite = bytearray(end - start)
        for prime in small:
            first = max(prime * prime, (start + prime - 1) // prime * prime)
            composite[first - start :: prime] = b"\1" * len(range(first, end, prime))
        found += sum(1 for n in range(max(start, 2), end) if not composite[n - start])
        ctx.progress(end, below, f"{found:,} primes below {end:,}")
    return found


def _primes_up_to(limit: int) -> list[int]:
    composite = bytearray(limit + 1)
    for n in range(2, math.isqrt(limit) + 1):
        if not composite[n]:
            composite[n * n :: n] = b"\1" * len(range(n * n, limit + 1, n))
    return [n for n in range(2, limit + 1) if not composite[n]]
