"""What must hold of the rows when nothing is under way any more.

First without a sweep: nobody has died, so there is nothing that needs one, but for the children of
children that were cancelled with their parent. Then with sweeps, after which those are, too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from coatcheck.model.outcome import Succeeded
from coatcheck.model.step import child_finished, event_sent
from tests.postgres.world import LATER, World

ENDED = ("succeeded", "failed", "cancelled")
MOST_SWEEPS = 6

# Each finds what must not be.
NEVER = {
    "a log with gaps or doubles": """
        SELECT jobs.id, last_event, numbers FROM @.jobs LEFT JOIN (
          SELECT tenant, job_id, array_agg(seq ORDER BY seq) AS numbers FROM (
            SELECT tenant, job_id, seq FROM @.events
            UNION ALL SELECT tenant, id, 1 FROM @.jobs WHERE queued_event_at IS NOT NULL
            UNION ALL SELECT tenant, id, running_event FROM @.jobs WHERE running_event IS NOT NULL
            UNION ALL
            SELECT tenant, id, succeeded_event FROM @.jobs WHERE succeeded_event IS NOT NULL
          ) AS told GROUP BY tenant, job_id
        ) AS log ON log.tenant = jobs.tenant AND log.job_id = jobs.id
        WHERE numbers IS DISTINCT FROM ARRAY(SELECT generate_series(1, last_event))""",
    "a job that can be claimed and is not queued": """
        SELECT id, state FROM @.jobs WHERE claimable AND state <> 'queued'""",
    "a job that is due and cannot be claimed": """
        SELECT id FROM @.jobs WHERE state = 'queued' AND NOT claimable AND run_at <= created_at""",
    "a running job of nobody, or another that is somebody's": """
        SELECT id, state, worker FROM @.jobs WHERE (state = 'running') <> (worker IS NOT NULL)""",
    "a running job of a worker that is gone": """
        SELECT id, worker FROM @.jobs
        WHERE worker IS NOT NULL AND worker NOT IN (SELECT id FROM @.workers)""",
    "a job that has ended and not": """
        SELECT id, state FROM @.jobs
        WHERE (state IN ('succeeded', 'failed', 'cancelled')) <> (finished_at IS NOT NULL)
          OR (finished_at IS NULL) <> (expires_at IS NULL)""",
    "a job that waits for what is there": """
        SELECT waits.job_id, what FROM @.waits LEFT JOIN @.jobs
          ON jobs.tenant = waits.tenant AND what = 'job:' || jobs.id
        LEFT JOIN @.messages ON messages.tenant = waits.tenant AND messages.job_id = waits.job_id
          AND what = 'event:' || messages.number || ':' || messages.name
        WHERE messages.name IS NOT NULL OR what LIKE 'job:%'
          AND coalesce(jobs.state, 'gone') NOT IN ('queued', 'running', 'waiting')""",
    "what a job waits for that does not wait": """
        SELECT waits.job_id, what FROM @.waits LEFT JOIN @.jobs
          ON jobs.tenant = waits.tenant AND jobs.id = waits.job_id
        WHERE state IS DISTINCT FROM 'waiting'""",
    "a job that waits for nothing": """
        SELECT id FROM @.jobs WHERE state = 'waiting' AND run_at > created_at + 86400000
          AND NOT EXISTS (
            SELECT FROM @.waits WHERE waits.tenant = jobs.tenant AND waits.job_id = jobs.id)""",
    "messages with gaps": """
        SELECT job_id, name, count(*), max(number) FROM @.messages
        GROUP BY tenant, job_id, name HAVING count(*) <> max(number) + 1""",
    "an event that was taken and is not there": """
        SELECT job_id, name, count(*) FROM @.steps WHERE op = 'event' AND state = 'succeeded'
        GROUP BY tenant, job_id, name HAVING count(*) > (
          SELECT count(*) FROM @.messages WHERE messages.tenant = steps.tenant
            AND messages.job_id = steps.job_id AND messages.name = steps.name)""",
    "a cascade that nobody goes on with": """
        SELECT child.id FROM @.jobs AS child JOIN @.jobs
          ON jobs.tenant = child.tenant AND jobs.id = child.parent
        WHERE jobs.state = 'cancelled' AND child.state IN ('queued', 'running', 'waiting')
          AND NOT child.cancel_requested AND child.id <> ALL ($1::text[]) AND NOT EXISTS (
            SELECT FROM @.cascades
            WHERE cascades.tenant = jobs.tenant AND cascades.job_id = jobs.id)""",
    "what counts for a limit and does not run": """
        SELECT id FROM @.jobs WHERE state = 'running' AND limited AND worker IS NULL""",
}
OF_JOBS = ("waits", "steps", "messages", "events", "artifacts", "deliveries")
NEVER |= {
    f"{table} of a job that is gone": f"""
        SELECT job_id FROM @.{table} WHERE NOT EXISTS (
          SELECT FROM @.jobs WHERE jobs.tenant = {table}.tenant AND jobs.id = {table}.job_id)"""
    for table in OF_JOBS
}
NEVER["a job that is listed, and gone"] = "SELECT id FROM @.listing EXCEPT SELECT id FROM @.jobs"
_ALL = " UNION ALL ".join(
    f"SELECT $what${what}$what$ AS what, found::text FROM ({sql}) AS found"
    for what, sql in NEVER.items()
)


async def check(world: World) -> None:
    """Raise AssertionError unless all is as it must be."""
    assert not world.schedule.circles, "some have waited for each other"
    await _check_rows(world)
    await _check_promises(world)
    for _ in range(MOST_SWEEPS):
        await world.stores[0].maintenance.sweep(LATER)
        if not await world.rows("SELECT FROM @.cascades"):
            break
    else:
        raise AssertionError("a cascade does not end")
    await _check_rows(world)


async def _check_rows(world: World) -> None:
    found = await world.rows(_ALL, sorted(world.resumed))
    assert not found, [tuple(row) for row in found]


async def _check_promises(world: World) -> None:
    rows = await world.rows("SELECT id, state, fence, worker FROM @.jobs")
    jobs = {row["id"]: row for row in rows}
    workers = {row[0] for row in await world.rows("SELECT id FROM @.workers")}
    twice = [
        lease for lease, count in Counter(each for each, _ in world.leases).items() if count > 1
    ]
    assert not twice, f"given to two: {twice}"
    for lease, outcome, answer in world.settled:
        _check_settled(jobs.get(lease.job_id), lease, outcome, answer)
    ended = {lease for lease, _, _ in world.settled}
    for lease, worker in world.leases:
        if lease not in ended and worker in workers and (job := jobs.get(lease.job_id)):
            holds = (job["state"], job["fence"], job["worker"])
            assert holds == ("running", lease.fence, worker), f"{lease} was taken away: {holds}"
    steps = {tuple(row) for row in await world.rows("SELECT job_id, seq FROM @.steps")}
    lost = [each for each in world.steps if each[0] in jobs and each not in steps]
    assert not lost, f"steps were lost: {lost}"
    events = await world.rows("SELECT job_id, name, number FROM @.messages")
    sent = Counter(each for each in world.sent if each[0] in jobs)
    kept = Counter((row[0], row[1]) for row in events)
    assert sent <= kept, f"events were lost: {sent - kept}"
    came = {(row[0], event_sent(row[1], row[2])) for row in events}
    for job_id, groups in world.groups.items():
        if job_id in jobs and jobs[job_id]["state"] == "waiting":
            for group in groups:
                left = [what for what in group if not _has_come(job_id, what, jobs, came)]
                assert left, f"{job_id} waits though all is there: {group}"


def _check_settled(job: Any, lease: Any, outcome: Any, answer: bool) -> None:
    if job is None:
        return
    holds = job["state"] == "running" and job["fence"] == lease.fence
    assert not holds, f"{lease} was settled, {answer}, and runs"
    if answer and isinstance(outcome, Succeeded):
        assert job["state"] == "succeeded", f"{lease} has succeeded, and is {job['state']}"
    if not answer:
        assert job["fence"] != lease.fence, f"{lease} was refused, and is the newest"


def _has_come(job_id: str, what: str, jobs: dict[str, Any], came: set[tuple[str, str]]) -> bool:
    if what.startswith(child_finished("")):
        child = jobs.get(what.removeprefix(child_finished("")))
        return child is None or child["state"] in ENDED
    return (job_id, what) in came
