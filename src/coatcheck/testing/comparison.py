"""Comparison of everything a store shows with the expected contents."""

from __future__ import annotations

import json
from collections.abc import Mapping

from coatcheck.errors import Gone, NotFound
from coatcheck.model.event import EventType
from coatcheck.model.job import Job
from coatcheck.store.base import JobFilter, Store
from coatcheck.testing.expected import ENDED, GONE_IS_KNOWN_FOR, ExpectedJob, ExpectedStore, Key
from coatcheck.testing.used import usage_in

# Fields of `ExpectedJob` that are not in a job's row, or that come from its submission.
_TOLD_ELSEWHERE = frozenset(
    ("new", "queued_at", "log", "steps", "messages", "waits_for", "resumed_after")
)


async def compare(
    store: Store, expected: ExpectedStore, now: int, known: Mapping[Key, Job]
) -> dict[Key, Job]:
    """Assert that jobs, logs, lists, queues, workers, counters and usage agree; return the jobs.

    Every log entry changes its job's row as well, so the logs of jobs that equal their `known` row
    are not read again. Reading them was most of the cost of a comparison.
    """
    found = {(job.tenant, job.id): job for job in await store.jobs.get_many(list(expected.jobs))}
    assert set(found) == set(expected.jobs)
    for key, job in found.items():
        assert _summary(job) == _expected_summary(expected.jobs[key])
        if known.get(key) != job:
            await _compare_log(store, expected.jobs[key])
        await _compare_messages(store, expected.jobs[key])
    for tenant in {tenant for tenant, _ in expected.jobs}:
        listed = await store.jobs.list_jobs(JobFilter(tenant, limit=1_000))
        ids = [job_id for owner, job_id in expected.jobs if owner == tenant]
        assert [job.id for job in listed] == sorted(ids, reverse=True)
    await _compare_what_is_gone(store, expected, now)
    await _compare_queues(store, expected, now)
    workers = {seen.info.id: seen.info.beats for seen in await store.workers.list_workers()}
    assert workers == expected.beats
    assert (await store.maintenance.read_counters()).get("stale_writes", 0) == expected.stale_writes
    await _compare_usage(store, expected)
    return found


async def _compare_usage(store: Store, expected: ExpectedStore) -> None:
    everything = [*expected.jobs.values(), *expected.deleted]
    bill = usage_in(everything)
    told = [
        used
        for tenant in sorted({job.new.tenant for job in everything})
        for used in await store.access.list_usage(tenant, 0, 2**53)
    ]
    assert {(used.tenant, used.kind, used.hour): used for used in told} == bill


async def _compare_log(store: Store, job: ExpectedJob) -> None:
    log = await store.jobs.list_events(job.new.tenant, job.new.id, 0, 1_000)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    states = [
        json.loads(event.data)["state"] if event.type is EventType.STATE else None for event in log
    ]
    entries = [(event.type, event.at, state) for event, state in zip(log, states, strict=True)]
    assert entries == job.log
    # The final state is logged once, as the last state, unless the job was resumed since.
    ends = [state for state in states[job.resumed_after :] if state in ENDED]
    assert ends == ([states[-1]] if job.state in ENDED else [])
    if job.steps:
        steps = await store.jobs.list_steps(*job.key)
        assert steps == [job.steps[seq] for seq in sorted(job.steps)]


async def _compare_messages(store: Store, job: ExpectedJob) -> None:
    if job.messages:
        messages = await store.jobs.list_sent_events(*job.key)
        by_name = sorted(job.messages, key=lambda message: (message.name, message.number))
        assert sorted(messages, key=lambda message: (message.name, message.number)) == by_name


async def _compare_what_is_gone(store: Store, expected: ExpectedStore, now: int) -> None:
    for key, deleted_at in expected.gone.items():
        try:
            await store.jobs.get(*key)
        except NotFound as error:
            # The first sweep after its expiry deletes a tombstone, so from then on either error is
            # right.
            lately = now < deleted_at + GONE_IS_KNOWN_FOR
            assert isinstance(error, Gone) or not lately
        else:
            raise AssertionError(f"{key} was deleted and is there")
        assert await store.jobs.list_events(*key, 0, 10) == []


async def _compare_queues(store: Store, expected: ExpectedStore, now: int) -> None:
    held = [job for job in expected.jobs.values() if job.state in ("queued", "running")]
    queues = await store.queues.list_queues()
    names = {job.new.queue for job in held} | expected.paused
    assert [queue.name for queue in queues] == sorted(names)
    for queue in queues:
        jobs = [job for job in held if job.new.queue == queue.name]
        queued = [job for job in jobs if job.state == "queued"]
        assert queue.paused is (queue.name in expected.paused)
        assert queue.running == len(jobs) - len(queued)
        assert queue.ready + queue.delayed == len(queued)
        # A delayed job that has become due counts as ready or as delayed until the next claim.
        ready = [job for job in queued if job.run_at <= job.queued_at]
        assert queue.ready >= len(ready)
        assert queue.delayed >= sum(job.run_at > now for job in queued)
        if queue.ready == len(ready):
            oldest = min((job.new.created_at for job in ready), default=None)
            assert queue.oldest_ready == oldest


def _summary(job: Job) -> dict[str, object]:
    return {
        "kind": job.kind,
        "queue": job.queue,
        "public_id": job.public_id,
        "priority": job.priority,
        "terms": job.terms,
        "state": str(job.state),
        "reason": None if job.reason is None else str(job.reason),
        "phase": job.phase,
        "progress": job.progress,
        "error": job.error,
        "result": job.result,
        "artifacts": job.artifacts,
        "attempt": job.attempt,
        "fence": job.fence,
        "worker": job.worker,
        "run_at": job.run_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "expires_at": job.expires_at,
        "cancel_requested": job.cancel_requested,
        "last_event": job.last_event,
    }


def _expected_summary(job: ExpectedJob) -> dict[str, object]:
    told = {name: value for name, value in vars(job).items() if name not in _TOLD_ELSEWHERE}
    agreed = {name: getattr(job.new, name) for name in ("kind", "queue", "priority", "terms")}
    public_id = job.new.public_id or job.new.id
    return {**told, **agreed, "public_id": public_id, "last_event": len(job.log)}
