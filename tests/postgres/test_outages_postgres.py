"""The server goes away, its connections break, its answers are lost, and nobody restarts anything.

What was accepted is not lost, each job ends once, and what was asked for again happens once.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound, StoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT, JobInsert
from coatcheck.model.outcome import Released, Succeeded
from coatcheck.model.state import State
from coatcheck.store.base import Settlement, Topic
from coatcheck.store.postgres.database import pool as database
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.conformance.arrange import (
    NOW,
    WORKER,
    cancel_requests,
    new_job,
    run_job,
    settle,
    worker_info,
)

from .proxy import Proxy, backends, terminate
from .server import TrialServer
from .working import Workshop, check_that_each_succeeded_once, states_of, working

pytestmark = pytest.mark.anyio

# A caller is never kept longer than this while the server is away.
BOUND_S = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[TrialServer]:
    """A server of this file's own, which it may stop."""
    with TrialServer() as server:
        yield server


@pytest.fixture
def dsn(server: TrialServer) -> str:
    return server.dsn


@pytest.fixture
def schema(new_schema: str) -> str:
    return new_schema


@pytest.fixture
def workshop() -> Workshop:
    return Workshop()


@pytest.fixture
def engine(store: PostgresStore, workshop: Workshop) -> Engine:
    return Engine(store, workshop.app.kinds)


# --- the server is stopped


async def submit_until_refused(
    engine: Engine, workshop: Workshop, refused: asyncio.Event
) -> tuple[list[JobInsert], list[JobInsert]]:
    """Submit one job after the other; return those accepted, and the first that was not."""
    accepted: list[JobInsert] = []
    while True:
        job = workshop.new_job(engine, "quick", len(accepted))
        try:
            async with asyncio.timeout(BOUND_S):
                await engine.store.jobs.submit(job, engine.clock.now())
        except StoreUnavailable:
            refused.set()
            return accepted, [job]
        accepted.append(job)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_stopped_server_loses_nothing_and_is_found_again(
    server: TrialServer, engine: Engine, workshop: Workshop, mode: str
) -> None:
    held = [workshop.new_job(engine, "held", n) for n in range(4)]
    async with working(engine):
        await engine.store.jobs.submit_batch(held, engine.clock.now())
        await workshop.started(len(held))
        refusals = [asyncio.Event() for _ in range(3)]
        submitting = [
            asyncio.create_task(submit_until_refused(engine, workshop, refused))
            for refused in refusals
        ]
        await workshop.started(50)

        await asyncio.to_thread(server.stop, mode)
        workshop.gate.set()  # what they return now cannot be written yet
        await asyncio.gather(*(refused.wait() for refused in refusals))
        await asyncio.to_thread(server.start)

        quick = []
        for accepted, unsure in await asyncio.gather(*submitting):
            for job in unsure:  # it happened or not; asked again with its id it has happened
                await engine.store.jobs.submit(job, engine.clock.now())
            quick += accepted + unsure
        await check_that_each_succeeded_once(engine, held + quick)
    assert set(workshop.starts.values()) == {1}
    for job in held:
        assert (await engine.get(job.id)).attempt == 1


async def test_every_verb_answers_within_bounds_while_the_server_is_away(
    server: TrialServer, store: PostgresStore
) -> None:
    job = new_job()
    await asyncio.to_thread(server.stop, "fast")
    try:
        async with asyncio.timeout(BOUND_S):
            answers = await asyncio.gather(
                store.ping(),
                store.jobs.submit(job, NOW),
                store.jobs.submit_batch([job], NOW),
                store.jobs.get(DEFAULT_TENANT, job.id),
                store.jobs.cancel(DEFAULT_TENANT, job.id, NOW),
                store.workers.heartbeat(WORKER),
                store.workers.claim(WORKER, ["mail"], 1, NOW),
                store.maintenance.sweep(NOW),
                store.queues.list_queues(),
                return_exceptions=True,
            )
    finally:
        await asyncio.to_thread(server.start)
    assert {type(answer) for answer in answers} == {StoreUnavailable}, answers
    with pytest.raises(NotFound):
        await store.jobs.get(DEFAULT_TENANT, job.id)
    await store.jobs.submit(job, NOW)
    assert await states_of(store, job.id) == ["queued"]


async def test_a_store_is_not_opened_while_the_server_is_away(server: TrialServer) -> None:
    await asyncio.to_thread(server.stop, "fast")
    try:
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(StoreUnavailable):
                await PostgresStore(server.dsn).open()
    finally:
        await asyncio.to_thread(server.start)


async def test_a_store_is_closed_while_the_server_is_away(server: TrialServer, schema: str) -> None:
    store = PostgresStore(server.dsn, schema=schema, connections=2, poll_s=60)
    await store.open()
    store.subscribe(Topic.WORK)
    await asyncio.to_thread(server.stop, "fast")
    try:
        async with asyncio.timeout(BOUND_S):
            await store.close()
    finally:
        await asyncio.to_thread(server.start)


# --- connections break


async def test_every_connection_is_killed_in_mid_run(
    dsn: str, engine: Engine, workshop: Workshop
) -> None:
    jobs = [workshop.new_job(engine, "quick", n) for n in range(400)]

    async def submit(some: list[JobInsert]) -> None:
        for job in some:
            await engine.store.jobs.submit(job, engine.clock.now())

    async with working(engine):
        submitting = asyncio.gather(*(submit(jobs[n::8]) for n in range(8)))
        for _ in range(3):
            await workshop.started(50)
            await terminate(dsn, *await backends(dsn))
        await submitting
        await check_that_each_succeeded_once(engine, jobs)
    assert set(workshop.starts.values()) == {1}


async def test_connections_that_were_cut_while_nobody_used_them_cost_no_try(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "TRIES", 1)
    pool, at_hand = store._database._pool, store._database._at_hand
    for _ in range(2):
        cut = await pool.acquire()
        await pool.release(cut)  # as it does itself with one that is cut
        at_hand.append(cut)
    assert await store.maintenance.read_counters() == {}


async def test_a_held_job_keeps_its_attempt_when_every_connection_is_killed(
    dsn: str, engine: Engine, workshop: Workshop
) -> None:
    job = workshop.new_job(engine, "held", 1)
    async with working(engine):
        await engine.store.jobs.submit(job, engine.clock.now())
        await workshop.started()
        await terminate(dsn, *await backends(dsn))
        workshop.gate.set()
        await check_that_each_succeeded_once(engine, [job])
    assert (await engine.get(job.id)).attempt == 1


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy(dsn) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy, store: PostgresStore, schema: str) -> AsyncIterator[PostgresStore]:
    """The same schema, reached through the proxy."""
    far = PostgresStore(proxy.dsn, schema=schema, connections=2, poll_s=60)
    await far.open()
    yield far
    await far.close()


async def test_a_connection_that_was_told_to_end_and_is_still_open_is_not_used(
    proxy: Proxy, far: PostgresStore, store: PostgresStore
) -> None:
    """Between the server's goodbye and the end of the connection there is a moment."""
    await far.ping()
    await proxy.say_goodbye()
    job = new_job()
    await far.jobs.submit(job, NOW)
    assert await states_of(store, job.id) == ["queued"]


async def test_a_job_that_succeeded_is_not_failed_for_a_connection_that_was_told_to_end(
    proxy: Proxy, far: PostgresStore, store: PostgresStore, workshop: Workshop
) -> None:
    # The driver may stumble over what it hears after a goodbye; what we make of it is tested here.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    engine = Engine(far, workshop.app.kinds)
    job = workshop.new_job(engine, "held", 7)
    async with working(engine):
        await store.jobs.submit(job, engine.clock.now())
        await workshop.started()
        await proxy.say_goodbye()
        workshop.gate.set()
        await check_that_each_succeeded_once(Engine(store, workshop.app.kinds), [job])


# --- answers are lost


async def test_a_submit_whose_answer_was_lost_has_happened_once(
    proxy: Proxy, far: PostgresStore, store: PostgresStore
) -> None:
    job = new_job()
    proxy.cut_on("INSERT 0 1")
    await far.jobs.submit(job, NOW)
    assert proxy.cuts == 1
    assert await states_of(store, job.id) == ["queued"]


async def test_so_has_a_batch(proxy: Proxy, far: PostgresStore, store: PostgresStore) -> None:
    jobs = [new_job() for _ in range(100)]
    proxy.cut_on("INSERT 0 100")
    await far.jobs.submit_batch(jobs, NOW)
    assert proxy.cuts == 1
    for job in jobs:
        assert await states_of(store, job.id) == ["queued"]


async def test_a_settle_whose_answer_was_lost_has_happened_once(
    proxy: Proxy, far: PostgresStore, store: PostgresStore
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store)
    proxy.cut_on("COMMIT")
    assert await settle(far, lease, Succeeded('"done"')) is True
    assert proxy.cuts == 1
    assert await states_of(store, lease.job_id) == ["queued", "running", "succeeded"]
    assert (await store.maintenance.read_counters()).get("stale_writes", 0) == 0


async def test_a_cancel_whose_answer_was_lost_has_happened_once(
    proxy: Proxy, far: PostgresStore, store: PostgresStore
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store)
    proxy.cut_on("COMMIT")
    job = await far.jobs.cancel(DEFAULT_TENANT, lease.job_id, NOW)
    assert proxy.cuts == 1
    assert job.cancel_requested
    assert await cancel_requests(store, WORKER) == [lease]
    assert await states_of(store, lease.job_id) == ["queued", "running", "running"]


async def test_a_claim_is_never_repeated_and_what_it_took_can_be_asked_for(
    proxy: Proxy, far: PostgresStore, store: PostgresStore
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    first, second = new_job(), new_job()
    await store.jobs.submit_batch([first, second], NOW)
    proxy.cut_on("SELECT 1")
    with pytest.raises(StoreUnavailable):
        await far.workers.claim(WORKER, ["mail"], 1, NOW)
    [held] = await far.workers.list_held_jobs(WORKER)
    assert held.lease.job_id == first.id
    assert await states_of(store, second.id) == ["queued"]
    assert await far.workers.settle([Settlement(held.lease, Released())], NOW) == [True]


async def test_a_worker_gives_back_and_runs_what_it_did_not_hear_it_had_claimed(
    proxy: Proxy, far: PostgresStore, store: PostgresStore, workshop: Workshop
) -> None:
    engine = Engine(far, workshop.app.kinds)
    jobs = [workshop.new_job(engine, "quick", n) for n in range(3)]
    await store.jobs.submit_batch(jobs, engine.clock.now())
    proxy.cut_on("SELECT 3")
    async with working(engine):
        await check_that_each_succeeded_once(Engine(store, workshop.app.kinds), jobs)
    assert proxy.cuts == 1
    assert set(workshop.starts.values()) == {1}
    for job in jobs:
        assert (await store.jobs.get(DEFAULT_TENANT, job.id)).attempt == 1
        states = await states_of(store, job.id)
        assert states == ["queued", "running", "queued", "running", "succeeded"]


async def test_a_worker_settles_again_when_it_did_not_hear_that_it_had(
    proxy: Proxy, far: PostgresStore, store: PostgresStore, workshop: Workshop
) -> None:
    engine = Engine(far, workshop.app.kinds)
    job = workshop.new_job(engine, "held", 7)
    async with working(engine):
        await store.jobs.submit(job, engine.clock.now())
        await workshop.started()
        proxy.cut_on("SELECT 1")
        workshop.gate.set()
        await proxy.has_cut.wait()
        await check_that_each_succeeded_once(Engine(store, workshop.app.kinds), [job])
    assert await states_of(store, job.id) == ["queued", "running", "succeeded"]
    assert await store.workers.list_workers() == []
    assert (await store.maintenance.read_counters()).get("stale_writes", 0) == 0


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
@pytest.mark.parametrize("verb", ["cancel", "settle", "remove_worker"])
async def test_what_had_to_be_asked_for_again_still_wakes_those_who_wait_for_it(
    dsn: str,
    schema: str,
    proxy: Proxy,
    far: PostgresStore,
    store: PostgresStore,
    verb: str,
    is_lost: bool,
) -> None:
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store)
    topic = {"cancel": Topic.CANCELS, "settle": Topic.CHANGES, "remove_worker": Topic.WORK}[verb]
    woken = store.subscribe(topic)
    assert await woken.wait(BOUND_S)  # it listens by now
    heard = store.subscribe(Topic.REPORTS)
    connection = await asyncpg.connect(dsn)
    await connection.execute("SELECT pg_notify($1, $2)", schema, f"x {Topic.REPORTS}")
    await connection.close()
    assert await heard.wait(BOUND_S)  # and with it all that was sent before
    await woken.wait(0)
    if is_lost:
        proxy.cut_on("COMMIT")
    match verb:
        case "cancel":
            await far.jobs.cancel(DEFAULT_TENANT, lease.job_id, NOW)
        case "settle":
            await settle(far, lease, Succeeded("1"))
        case _:
            await far.workers.remove_worker(WORKER, None, NOW)
            assert (await store.jobs.get(DEFAULT_TENANT, lease.job_id)).state is State.QUEUED
    assert proxy.cuts == is_lost
    assert await woken.wait(BOUND_S) is True


# That a statement will come, and that the server is to say when it is ready for it.
ANNOUNCED = b"P" + struct.pack("!I", 4 + 1 + 9 + 2) + b"\0SELECT 1\0\0\0" + b"H\0\0\0\4"


@pytest.mark.parametrize("within_a_statement", [False, True])
async def test_a_process_frozen_in_a_transaction_does_not_keep_its_jobs_from_others(
    dsn: str, schema: str, store: PostgresStore, within_a_statement: bool
) -> None:
    store._database.stalled_ms = 200
    await store.workers.register_worker(worker_info(WORKER))
    lease = await run_job(store)
    frozen = database.Database(dsn, connections=2)
    frozen.stalled_ms = 200
    await frozen.open()
    locked, thawed = asyncio.Event(), asyncio.Event()

    async def settle_slowly(connection: Any) -> None:
        await connection.fetch(f'SELECT id FROM "{schema}".jobs FOR UPDATE')
        if within_a_statement:
            connection._con._transport.write(ANNOUNCED)
        locked.set()
        await thawed.wait()
        await connection.fetch("SELECT 1")

    settling = asyncio.create_task(frozen.run(settle_slowly, repeatable=False))
    await locked.wait()
    async with asyncio.timeout(BOUND_S):
        assert await store.workers.remove_worker(WORKER, 0, NOW) == 1
    assert (await store.jobs.get(DEFAULT_TENANT, lease.job_id)).state is State.QUEUED
    thawed.set()
    with pytest.raises(StoreUnavailable):
        await settling
    await frozen.close()
