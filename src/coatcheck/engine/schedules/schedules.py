"""Operations on schedules: create, change, pause, resume, delete, and list upcoming ticks.

Every operation that changes a schedule reads it, decides, and writes if the revision is still the
one it read. If another writer was faster, the operation starts over.

The schedules that an app declares are registered when one of its processes starts (`register`). New
schedules are created, changed ones are updated and equal ones are left alone, so neither a restart
nor a second server disturbs a schedule. If a declared schedule is no longer in the code, a process
that has its kind deletes it. During a deploy, old and new processes may both start: the last one to
start wins.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace

from coatcheck.clock import Clock
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.errors import Conflict, InvalidPayload, NotFound
from coatcheck.model.audit import (
    ANONYMOUS,
    APP,
    Action,
    AuditEntry,
    audited,
    changed_fields,
)
from coatcheck.model.job import DEFAULT_TENANT, Job, JobInsert
from coatcheck.model.kind import Kind
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.schedule import SCHEDULE_LABEL, Schedule, ScheduleDefinition
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

_PAGE = 200


class Schedules:
    """The schedules of one store, for one set of kinds."""

    def __init__(
        self, store: Store, kinds: Mapping[str, Kind], clock: Clock, new_id: Callable[[], str]
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self.new_id = new_id

    # --- reading

    async def get(self, name: str, tenant: str = DEFAULT_TENANT) -> Schedule:
        """Read a schedule; raises NotFound."""
        found = await self._store.schedules.get_schedule(tenant, name) if is_name(name) else None
        if found is None:
            raise NotFound("there is no such schedule")
        return found

    async def page(
        self, after: str = "", limit: int = 100, tenant: str = DEFAULT_TENANT
    ) -> list[Schedule]:
        """List schedules by name, from the one after `after`."""
        return await self._store.schedules.list_schedules(tenant, after, limit)

    def upcoming(self, schedule: Schedule, count: int) -> list[int]:
        """Return the next ticks of a schedule; for a paused one, as if it were resumed now."""
        timing, begun = schedule.definition.timing, schedule.created_at
        first = schedule.next_at
        if first is None:
            return timing.upcoming(self._clock.now(), begun, count)
        return [first, *timing.upcoming(first, begun, count - 1)]

    # --- creating and changing

    async def put(
        self,
        definition: ScheduleDefinition,
        *,
        declared: bool = False,
        tenant: str = DEFAULT_TENANT,
        actor: str = ANONYMOUS,
    ) -> tuple[Schedule, bool]:
        """Create or change a schedule; return it, and whether it is new.

        If the timing does not change, the next tick stays the same. A paused schedule stays paused.
        """
        check_definition(definition, self._kinds)
        while True:
            there = await self._store.schedules.get_schedule(tenant, definition.name)
            if there is not None:
                if there.declared and not declared:
                    raise Conflict(
                        f"schedule {definition.name!r} is declared by an app: change it there"
                    )
                if there.definition == definition and there.declared == declared:
                    return there, False
            written = self._over(there, definition, declared, tenant)
            revision = None if there is None else there.revision
            entry = self._put_entry(actor, there, written)
            if await self._store.schedules.put_schedule(written, revision, audit=entry):
                return written, there is None

    def _put_entry(self, actor: str, there: Schedule | None, written: Schedule) -> AuditEntry:
        if there is None:
            return self._entry(actor, Action.CREATE_SCHEDULE, written)
        names = [field.name for field in fields(written.definition)]
        changed = changed_fields(there.definition, written.definition, names)
        return self._entry(actor, Action.UPDATE_SCHEDULE, written, changed=changed)

    def _entry(
        self, actor: str, action: Action, schedule: Schedule, **detail: object
    ) -> AuditEntry:
        return audited(self.new_id(), actor, action, schedule.name, schedule.tenant, **detail)

    def _over(
        self, there: Schedule | None, definition: ScheduleDefinition, declared: bool, tenant: str
    ) -> Schedule:
        now = self._clock.now()
        if there is None:
            return Schedule(
                tenant=tenant,
                definition=definition,
                declared=declared,
                revision=self.new_id(),
                paused=False,
                next_at=definition.timing.after(now, now),
                last_at=None,
                last_job=None,
                problem=None,
                created_at=now,
                updated_at=now,
            )
        changed = replace(
            there,
            definition=definition,
            declared=declared,
            revision=self.new_id(),
            problem=None,
            updated_at=now,
        )
        if there.paused or definition.timing == there.definition.timing:
            return changed
        return replace(changed, next_at=changed.next_after(now))

    async def pause(
        self, name: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> Schedule:
        """Pause a schedule; ticks that fall due while it is paused are skipped."""
        return await self._change(name, tenant, actor, paused=True)

    async def resume(
        self, name: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> Schedule:
        """Resume a paused schedule from its next tick."""
        return await self._change(name, tenant, actor, paused=False)

    async def _change(self, name: str, tenant: str, actor: str, *, paused: bool) -> Schedule:
        while True:
            there = await self.get(name, tenant)
            if there.paused == paused:
                return there
            now = self._clock.now()
            next_at = None if paused else there.next_after(now)
            changed = replace(
                there, revision=self.new_id(), paused=paused, next_at=next_at, updated_at=now
            )
            action = Action.PAUSE_SCHEDULE if paused else Action.RESUME_SCHEDULE
            entry = self._entry(actor, action, there)
            if await self._store.schedules.put_schedule(changed, there.revision, audit=entry):
                return changed

    async def delete(
        self, name: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> Schedule:
        """Delete a schedule but not its jobs; return the deleted schedule. Raises NotFound."""
        there = await self.get(name, tenant)
        entry = self._entry(actor, Action.DELETE_SCHEDULE, there)
        if not await self._store.schedules.delete_schedule(tenant, name, audit=entry):
            raise NotFound("there is no such schedule")
        return there

    async def register(
        self, declared: Collection[ScheduleDefinition], tenant: str = DEFAULT_TENANT
    ) -> None:
        """Update the stored schedules to match the ones that an app declares."""
        for definition in declared:
            await self.put(definition, declared=True, tenant=tenant, actor=APP)
        names = {definition.name for definition in declared}
        for there in await self._all(tenant):
            if there.declared and there.name not in names and there.definition.kind in self._kinds:
                entry = self._entry(APP, Action.DELETE_SCHEDULE, there)
                await self._store.schedules.delete_schedule(tenant, there.name, audit=entry)
                log.info("schedule no longer declared", extra={"schedule": there.name})

    async def _all(self, tenant: str) -> Sequence[Schedule]:
        found: list[Schedule] = []
        while True:
            page = await self._store.schedules.list_schedules(
                tenant, found[-1].name if found else "", _PAGE
            )
            found += page
            if len(page) < _PAGE:
                return found

    # --- jobs

    async def record_job(self, schedule: Schedule, job: Job) -> None:
        """Record a job that was submitted outside the ticks, for the check of `overlap`."""
        there: Schedule | None = schedule
        while there is not None and there.last_job != job.id:
            noted = replace(there, revision=self.new_id(), last_job=job.id)
            if await self._store.schedules.put_schedule(noted, there.revision):
                return
            there = await self._store.schedules.get_schedule(schedule.tenant, schedule.name)

    def job_of(self, schedule: Schedule, tick: int, now: int) -> JobInsert:
        """Return the job of a tick; raises InvalidPayload if its kind no longer accepts it."""
        asked = submission_of(schedule.definition, schedule.tenant, tick)
        return prepare(asked, self._kinds, schedule.job_id(tick), now)


def check_definition(definition: ScheduleDefinition, kinds: Mapping[str, Kind]) -> None:
    """Check that a schedule can work; raises InvalidPayload or UnknownKind."""
    problems = definition.timing.problems()
    if not is_name(definition.name):
        problems.append(("/name", NAME_RULE))
    if SCHEDULE_LABEL in json.loads(definition.labels):
        problems.append((f"/labels/{SCHEDULE_LABEL}", "its jobs get this label by themselves"))
    if problems:
        where = "; ".join(f"{place}: {what}" for place, what in problems[:3])
        raise InvalidPayload(f"this is not a schedule: {where}", problems)
    prepare(submission_of(definition, DEFAULT_TENANT), kinds, "", 0)


def submission_of(
    definition: ScheduleDefinition, tenant: str, tick: int | None = None
) -> Submission:
    """Return the submission that a schedule defines."""
    return Submission(
        kind=definition.kind,
        input=definition.input,
        queue=definition.queue,
        priority=definition.priority,
        labels={**json.loads(definition.labels), SCHEDULE_LABEL: definition.name},
        run_at=tick,
        deadline_s=definition.deadline_s,
        max_attempts=definition.max_attempts,
        tenant=tenant,
    )
