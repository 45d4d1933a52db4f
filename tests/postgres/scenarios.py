"""What is tried in many orders: each scenario arranges jobs, and then a few operations go on beside
each other. Which operations, and through which of two stores, the seed decides as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from coatcheck.model import transition as rules
from coatcheck.model.job import JobInsert, Lease
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Cancelled, Errored, Outcome, Released, Succeeded, Waiting
from coatcheck.model.step import Op, StepId, child_finished, event_sent
from coatcheck.store.base import Idempotency
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.rekey import TextChange
from coatcheck.testing.conformance.arrange import (
    NOW,
    OTHER_WORKER,
    TENANT,
    WORKER,
    new_job,
    new_step,
)
from coatcheck.testing.conformance.uploads import uploaded
from tests.postgres.world import BOOM, LATER, World, job_for_long

Scenario = Callable[[World], Awaitable[None]]

DAY = 86_400_000


async def families(world: World) -> None:
    """Children of two parents end while their parents begin to wait for them."""
    await world.work()
    store = world.store
    parents = await world.running(store, 2)
    children = {
        parent: await world.spawn(store, parent, world.random.choice((1, 1, 2)))
        for parent in parents
    }
    leases = {lease.job_id: lease for lease in await world.claim(store, ["child"])}
    waits = []
    for parent in parents:
        names = [child_finished(child.id) for child in children[parent]]
        groups = (
            (tuple(names),) if world.random.random() < 0.6 else tuple((name,) for name in names)
        )
        waits.append((parent, Waiting(None, groups)))
    ends: list[tuple[object, Outcome]] = [
        (lease, world.outcome(ends=world.random.random() < 0.8)) for lease in leases.values()
    ]
    if world.random.random() < 0.4:
        await world.settle(world.store, waits.pop())
    how = world.random.choice(("one", "each", "one"))
    settles = [ends] if how == "one" else [[end] for end in ends]
    await world.together(
        *(world.settle(world.store, *each) for each in settles),  # type: ignore[arg-type]
        *(world.settle(world.store, wait) for wait in waits),
        world.maybe(world.sweep(world.store), 0.15),
    )


async def events(world: World) -> None:
    """Events are sent to a job that begins to wait for them."""
    await world.work()
    [lease] = await world.running(world.store)
    first, second, other = event_sent("go", 0), event_sent("go", 1), event_sent("stop", 0)
    ways: list[tuple[tuple[str, ...], ...]] = [
        ((first,),),
        ((first, second),),
        ((first, other),),
        ((first,), (other,)),
        ((first, second), (other,)),
    ]
    groups = world.random.choice(ways)
    if world.random.random() < 0.3:  # and who was told did not hear it, and says it again
        await world.settle(world.store, (lease, Waiting(None, groups)))
    waits = world.settle(world.store, (lease, Waiting(None, groups)))
    await world.together(
        waits,
        world.send(world.store, lease.job_id, "go"),
        world.send(world.store, lease.job_id, world.random.choice(("go", "stop"))),
        world.maybe(world.cancel(world.store, lease.job_id), 0.2),
        world.maybe(world.sweep(world.store), 0.15),
    )


async def _family(world: World) -> tuple[PostgresStore, Lease, list[JobInsert], list[Lease]]:
    """Return the store of a job that runs, the job, two it has spawned, and those that run."""
    await world.work()
    store = world.store
    [parent] = await world.running(store)
    born = await world.spawn(store, parent, 2)
    leases = await world.claim(store, ["child"], limit=world.random.choice((0, 1, 2)))
    return store, parent, born, leases


async def cancelling(world: World) -> None:
    """A job is cancelled while it spawns, waits or ends, and its children run or end."""
    store, parent, born, leases = await _family(world)
    names = tuple(child_finished(child.id) for child in born)
    waits = Waiting(None, (names,))
    if world.random.random() < 0.5:
        await world.settle(store, (parent, waits))
        of_parent = None
    else:
        outcome = world.random.choice((waits, Cancelled(), Succeeded("1"), Errored(BOOM, 0)))
        of_parent = world.settle(world.store, (parent, outcome))
    await world.together(
        world.cancel(world.store, parent.job_id),
        of_parent,
        world.maybe(world.spawn(world.store, parent), 0.4) if of_parent else None,
        world.maybe(world.settle(world.store, *((each, world.outcome()) for each in leases))),
        world.maybe(world.cancel(world.store, born[0].id), 0.3),
        world.maybe(world.claim(world.store, ["child"]), 0.3),
        world.maybe(world.sweep(world.store), 0.2),
    )


async def resuming(world: World) -> None:
    """A cancelled job is resumed while its children are being cancelled."""
    store, parent, born, leases = await _family(world)
    await world.settle(store, (parent, Waiting(None, ((child_finished(born[0].id),),))))
    if world.random.random() < 0.5:  # and who cancelled it died then
        await store._database.run(
            lambda db: job_operations.move(
                db, store._sql, [(TENANT, parent.job_id)], rules.request_cancel, NOW
            )
        )
        first = world.sweep(world.store)
    else:
        first = world.cancel(world.store, parent.job_id)
    await world.together(
        first,
        world.resume(world.store, parent.job_id),
        world.maybe(world.cancel(world.store, parent.job_id)),
        world.maybe(world.settle(world.store, *((each, world.outcome()) for each in leases))),
        world.maybe(world.resume(world.store, born[0].id), 0.3),
        world.maybe(world.claim(world.store, ["mail", "child"]), 0.3),
        world.maybe(world.sweep(world.store), 0.3),
    )


async def limits(world: World) -> None:
    """Claims of a limited kind beside each other, and beside what makes room."""
    await world.work(WORKER, OTHER_WORKER)
    most = world.random.choice((1, 2))
    limits = {"mail": Limit(most)}
    await world.store.jobs.submit_batch([job_for_long() for _ in range(4)], NOW)
    by = world.store
    running = await world.claim(by, ["mail"], limit=world.random.choice((0, 1, 2)), limits=limits)

    async def hold() -> None:
        [row] = await world.rows("SELECT count(*) FROM @.jobs WHERE state = 'running'")
        assert row[0] <= most, f"{row[0]} run, and the limit is {most}"

    world.schedule.always = hold
    ends = world.settle(
        world.random.choice((by, world.store)), *((lease, world.outcome()) for lease in running)
    )
    await world.together(
        world.claim(world.store, ["mail"], OTHER_WORKER, limits=limits),
        world.claim(world.store, ["mail"], WORKER, limits=limits),
        ends if running else ends.close(),
        world.maybe(world.remove(world.store, WORKER), 0.2),
        world.maybe(world.sweep(world.store), 0.1),
    )
    await _use_the_room(world, most, limits)


async def limiting(world: World) -> None:
    """A queue is given a limit while jobs of it are claimed and end."""
    await world.work(WORKER, OTHER_WORKER)
    by = world.store
    tenants = world.random.choice((("default",), ("default", "a", "b")))
    await by.jobs.submit_batch(
        [job_for_long(tenant=world.random.choice(tenants)) for _ in range(4)], NOW
    )
    running = await world.claim(by, ["mail"], limit=world.random.choice((1, 1, 2)))
    most = world.random.choice((1, 2))
    ends = [world.settle(by, (lease, world.outcome())) for lease in running]
    await world.together(
        world.limit(world.store, most),
        world.claim(world.store, ["mail"], OTHER_WORKER, limit=world.random.choice((1, 10))),
        *ends,
    )
    await _use_the_room(world, most, {})


async def _use_the_room(world: World, most: int, limits: dict[str, Limit]) -> None:
    """See that somebody was told where there is room, gets it, and no more."""
    [row] = await world.rows("SELECT count(*) FROM @.jobs WHERE state = 'running'")
    before = row[0]
    if before < most and await world.rows("SELECT FROM @.jobs WHERE claimable"):
        assert world.told() > min(world.asked.values()), "there is room, and nobody was told"
    got = await world.claim(world.store, ["mail"], OTHER_WORKER, limits=limits)
    assert len(got) <= max(0, most - before), f"{before} run and {len(got)} more, not {most}"
    left = await world.rows("SELECT FROM @.jobs WHERE claimable")
    assert len(got) + before >= most or not left, "there is room, and nobody gets it"


async def losing(world: World) -> None:
    """A worker is taken for lost while it settles, and another claims what it has let go of."""
    await world.work(WORKER, OTHER_WORKER)
    fields = {"tenant": TENANT}
    leases = await world.running(world.store, 2, **fields)
    ways: list[Outcome] = [Released(0), Errored(BOOM, 0), Succeeded("1")]
    ends = [(lease, world.random.choice(ways)) for lease in leases]
    apart = world.random.random() < 0.5
    limits = world.random.choice(({}, {"mail": Limit(5)}))
    await world.together(
        world.remove(world.store, WORKER),
        *(
            [world.settle(world.store, end) for end in ends]
            if apart
            else [world.settle(world.store, *ends)]
        ),
        world.claim(world.store, ["mail"], OTHER_WORKER, limits=limits),
        world.maybe(world.claim(world.store, ["mail"], WORKER, limits=limits), 0.3),
        world.maybe(world.report(world.store, leases[0], new_step()), 0.3),
        world.maybe(world.store.workers.heartbeat(WORKER), 0.2),
    )


async def deleting(world: World) -> None:
    """A job is deleted as soon as it has ended, beside whatever else is done to it."""
    await world.work()
    store = world.store
    [parent] = await world.running(store)
    [child] = await world.spawn(store, parent)
    [lease] = await world.claim(store, ["child"])
    waits = (parent, Waiting(None, ((child_finished(child.id),),)))
    if world.random.random() < 0.5:
        await world.settle(store, (lease, world.outcome(ends=True)))
        ends = world.resume(world.store, child.id)
    else:
        ends = world.settle(world.store, (lease, world.outcome(ends=True)))
    await world.together(
        ends,
        world.delete(world.store, child.id),
        world.settle(world.store, waits),
        world.maybe(world.report(world.store, lease, new_step()), 0.4),
        world.maybe(world.send(world.store, child.id, "go"), 0.4),
        world.maybe(world.cancel(world.store, child.id), 0.3),
        world.maybe(world.delete(world.store, child.id), 0.2),
        world.maybe(world.sweep(world.store, LATER + 365 * DAY), 0.3),
    )


async def forking(world: World) -> None:
    """A job is forked while it is deleted, or goes on."""
    await world.work()
    [lease] = await world.running(world.store)
    await world.send(world.store, lease.job_id, "go")
    took = new_step(1, "go", id=StepId(Op.EVENT, "go", None, 0))
    await world.report(world.store, lease, new_step(), took)
    await world.settle(world.store, (lease, world.outcome(ends=True)))
    fork = new_job(forked_from=lease.job_id)
    await world.together(
        world.store.jobs.fork(lease.job_id, 5, fork, LATER),
        world.maybe(world.store.jobs.fork(lease.job_id, 5, fork, LATER), 0.3),
        world.maybe(world.delete(world.store, lease.job_id), 0.7),
        world.maybe(world.resume(world.store, lease.job_id), 0.3),
        world.maybe(world.sweep(world.store, LATER + 365 * DAY), 0.3),
    )


async def settling(world: World) -> None:
    """Jobs end in one write as they were claimed, beside whatever else changes their rows."""
    await world.work()
    store, other = world.stores
    leases = await world.running(store, 3)
    one = leases[1]
    texts = [TextChange((TENANT, each.job_id), '{"n":1}', '{"n": 1}') for each in leases[:2]]
    ends = [(lease, world.outcome()) for lease in leases]
    if world.random.random() < 0.5:
        ends = [(lease, Succeeded("1")) for lease in leases]
    step = new_step()
    operations = [
        world.limit(other),
        world.replace(other, texts),
        world.cancel(other, one.job_id),
        world.log(store, one),
        world.say_nothing(store, one),
        world.report(store, one, step),
        world.report(store, leases[0], step, new_step(1, "two")),
        world.claim(other, ["mail"], WORKER, limits={"mail": Limit(5)}),
    ]
    world.random.shuffle(operations)
    chosen = operations[: world.random.choice((1, 2, 3))]
    for operation in operations[len(chosen) :]:
        operation.close()
    await world.together(world.settle(store, *ends), *chosen)


async def recording(world: World) -> None:
    """Steps of running jobs are written while something else changes the rows of the jobs."""
    await world.work()
    store, other = world.stores
    leases = await world.running(store, 2)
    texts = [TextChange((TENANT, each.job_id), '{"n":1}', '{"n": 1}') for each in leases]
    first = leases[0]
    await world.together(
        world.report(store, first, new_step()),
        world.report(store, leases[1], new_step(), new_step(1, "two")),
        world.maybe(world.limit(other), 0.6),
        world.maybe(world.replace(other, texts), 0.6),
        world.maybe(world.log(other, first), 0.3),
        world.maybe(world.cancel(other, first.job_id), 0.3),
    )
    await world.report(store, first, new_step(2, "three"))
    await world.settle(store, *((lease, Succeeded("1")) for lease in leases))


async def submitting(world: World) -> None:
    """The same is submitted under one key several times, and the key's time may be over."""
    await world.work()
    once = Idempotency("key", "print", NOW + DAY)
    new = [job_for_long() for _ in range(3)]
    over = world.random.random() < 0.4
    if over:
        old = job_for_long()
        await world.store.jobs.submit(old, NOW, once._replace(expires_at=LATER))
    again = world.random.choice((new[1], new[1], new[0]))
    answers = await world.together(
        world.store.jobs.submit(new[0], LATER, once),
        world.store.jobs.submit(again, LATER, once),
        world.maybe(world.store.jobs.submit(new[2], LATER, once)),
        world.maybe(world.claim(world.store, ["mail"]), 0.3),
        world.maybe(world.sweep(world.store), 0.4),
    )
    held = await world.store.jobs.find_submission(TENANT, "key", LATER)
    assert held is not None
    rows = {row[0] for row in await world.rows("SELECT id FROM @.jobs")}
    assert rows & {job.id for job in new} == {held.first_id}, f"not one job: {rows}, {held}"
    heard = {each.first_id for each in answers if hasattr(each, "first_id")}
    assert heard <= {held.first_id}, f"some have heard of another: {heard}, {held}"


async def uploading(world: World) -> None:
    """Two jobs want the same upload, and it may be deleted, or its time be over."""
    upload = await uploaded(world.store)
    jobs_ = [job_for_long(uploads=(upload,)) for _ in range(2)]

    async def clear_away() -> None:
        store = world.store
        await store.files.finish_blob_removal(
            await store.files.start_blob_removal(upload.expires_at, 10)
        )

    answers = await world.together(
        *(world.store.jobs.submit(job, LATER) for job in jobs_),
        world.maybe(world.store.files.delete_upload(TENANT, upload.id)),
        world.maybe(clear_away(), 0.4),
    )
    taken = [job.id for job, answer in zip(jobs_, answers, strict=False) if answer is None]
    rows = await world.rows("SELECT id FROM @.jobs")
    owners = await world.rows("SELECT job_id FROM @.uploads")
    kept = await world.rows("SELECT job_id FROM @.blobs WHERE remove_at IS NULL")
    assert len(taken) <= 1, "two jobs have one upload"
    for found in (rows, owners, kept):
        assert [row[0] for row in found] == taken, f"{found} of {taken}"
    assert taken or len(answers) > 2, "nobody took it away, and nobody has it"


ALL: tuple[Scenario, ...] = (
    families,
    events,
    cancelling,
    resuming,
    limits,
    limiting,
    losing,
    deleting,
    forking,
    settling,
    recording,
    submitting,
    uploading,
)
SCENARIOS = {scenario.__name__: scenario for scenario in ALL}
