"""Direct access to the database, for commands that need no server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from coatcheck.clock import SystemClock
from coatcheck.crypto.pepper import pepper_for
from coatcheck.engine.auth import Authenticator
from coatcheck.settings import load_settings
from coatcheck.store.base import Store
from coatcheck.store.open import store_for

T = TypeVar("T")


def with_authenticator(
    flags: dict[str, Any], function: Callable[[Authenticator, Store], Awaitable[T]]
) -> T:
    """Open the configured database and call a function with its authenticator and store."""
    settings = load_settings(flags)
    pepper = pepper_for(settings)

    async def run() -> T:
        store = store_for(settings)
        await store.open()
        try:
            return await function(Authenticator(store, SystemClock(), pepper.read_or_make), store)
        finally:
            await store.close()

    return asyncio.run(run())
