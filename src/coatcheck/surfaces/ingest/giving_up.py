"""Giving up uploads that no job has taken over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound, StoreError


async def give_up(engine: Engine, uploads: Sequence[str], tenant: str) -> None:
    """Remove files, but those that a job has after all; what fails is left to the sweep. Whoever
    hangs up meanwhile does not stop it.
    """
    if uploads:
        await asyncio.shield(_remove(engine, uploads, tenant))


async def _remove(engine: Engine, uploads: Sequence[str], tenant: str) -> None:
    for upload in uploads:
        with contextlib.suppress(NotFound, StoreError):
            await engine.uploads.delete(upload, tenant)
