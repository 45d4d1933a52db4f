"""A store with everything in it that is sealed, and a look at which keys it was sealed with."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from coatcheck.blobs.open import blobs_for
from coatcheck.clock import SystemClock
from coatcheck.crypto.encryption import MAGIC, keyring_for
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.rekey import Rekeyer, RekeyProgress
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.schedule import ScheduleDefinition, Timing
from coatcheck.settings import Settings
from coatcheck.store.encrypted.secrets import secret_keys_for
from coatcheck.store.open import store_for

from .canary import WORD, declare, sing

OLD, NEW = (f"{name}={base64.b64encode(bytes([n]) * 32).decode()}" for n, name in enumerate("ab"))
BOTH = f"{NEW},{OLD}"


@asynccontextmanager
async def opened(settings: Settings, keys: str) -> AsyncIterator[Engine]:
    """Open a store and its blobs with these keys."""
    sealed = replace(settings, encryption_keys=keys)
    blobs, store = blobs_for(sealed), store_for(sealed)
    await store.open()
    try:
        yield Engine(store, declare().kinds, blobs=blobs)
    finally:
        await store.close()
        blobs.close()


async def fill(engine: Engine, scratch: Path) -> list[str]:
    """Keep something of every sort; return the ids of the jobs."""
    ended = await sing(engine, scratch, others=6)
    timing = Timing(None, 3_600_000, None, "UTC")
    await engine.schedules.put(
        ScheduleDefinition(name="every", kind="failing", timing=timing, input=f'"{WORD}"')
    )
    await engine.webhooks.create(WebhookSpec("https://93.184.216.34/hook"))
    waiting = await engine.submit(Submission("other", f'"{WORD}"', run_at=2**42))
    await engine.send(waiting.id, "go", f'"{WORD}"', key="once")
    await engine.uploads.receive(f"upload {WORD}".encode(), "a.txt", key="once")
    return [*(job.id for job in ended), waiting.id]


async def reseal(settings: Settings, keys: str, engine: Engine) -> RekeyProgress:
    """Seal all of it with the first of the keys."""
    these = replace(settings, encryption_keys=keys)
    blobs, secrets = blobs_for(these), secret_keys_for(these)
    try:
        run = Rekeyer(
            engine.store, blobs, keyring_for(these), secrets, SystemClock(), lambda _: None
        )
        return await run.run()
    finally:
        blobs.close()


async def everything(engine: Engine, ids: list[str]) -> list[object]:
    """Read all that was kept, by the ways of those who use it."""
    found: list[object] = []
    for job_id in ids:
        job = await engine.get(job_id)
        found += [job, await engine.events(job_id), await engine.steps(job_id)]
        found.append(await engine.store.jobs.list_sent_events(job.tenant, job_id))
        text = await engine.store.jobs.get_input(job.tenant, job_id)
        found.append(await engine.payload_store.read(text))
        for artifact in job.artifacts:
            pieces = await engine.payload_store.stream(artifact)
            found.append(b"".join([piece async for piece in pieces]))
        for upload in await engine.store.files.list_uploads(job.tenant, job_id):
            pieces = await engine.payload_store.stream(upload)
            found.append(b"".join([piece async for piece in pieces]))
    found.append((await engine.schedules.get("every", DEFAULT_TENANT)).definition)
    for endpoint in await engine.store.webhooks.list_endpoints(DEFAULT_TENANT):
        found.append(await engine.webhooks.signing_secrets(endpoint.id))
    return found


def sealed_with(key: str, folder: Path) -> list[str]:
    """Return the files of blobs that a key has sealed."""
    beginning = MAGIC + key.encode() + b"\0"
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and path.read_bytes().startswith(beginning)
    ]
