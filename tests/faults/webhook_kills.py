"""A webhook dispatcher: `python -m tests.faults.webhook_kills SETTINGS`.

Each line of its standard input is a time. It sends the deliveries that are due then, and reports
that. If the line also names a failpoint, it kills itself there: *before* the call, *after* it and
before the result is recorded, or when that is *noted*.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from coatcheck import App, Context
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.settings import Settings
from coatcheck.store.open import store_for
from tests.faults.schedule_kills import ToldClock, die

POINTS = ("before", "after", "noted")

app = App()


@app.job
async def nothing(ctx: Context) -> None: ...


def set_trap(store: Any, point: str) -> None:
    """Have this process end at a point of its next delivery."""
    claim, note = store.webhooks.claim_deliveries, store.webhooks.record_deliveries

    async def claimed(*arguments: Any, **named: Any) -> Any:
        found = await claim(*arguments, **named)
        if point == "before":
            die()
        return found

    async def noted(*arguments: Any) -> None:
        if point == "noted":
            await note(*arguments)
        die()

    store.webhooks.claim_deliveries, store.webhooks.record_deliveries = claimed, noted


async def main(settings: str) -> None:
    store = store_for(Settings(**json.loads(settings)))
    await store.open()
    clock = ToldClock(0)
    engine = Engine(store, app.kinds, clock, egress=EgressPolicy("127.0.0.1"))
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        now, _, point = line.strip().partition(" ")
        if point:
            set_trap(store, point)
        clock.milliseconds = int(now)
        await engine.dispatcher.deliver_due()
        print("delivered", flush=True)
    await engine.dispatcher.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
