"""The journal: how a handler continues where it left off.

A handler that was interrupted, because its worker died or because it waits, is called again from
its beginning. Each call of `ctx.step` and its like is recorded in the job's *journal*, under its
name and key, in a write that counts only while the worker holds the lease. On a re-run, recorded
steps return their saved result instead of running again. The handler thus reaches the point where
it left off, with the same values, and continues.

- A step is identified by its operation, name and key. Without a key it is numbered by occurrence
  among the steps of its name. The number is fixed when `ctx.step` is called, not when it is
  awaited. If two steps of one name without keys were in progress at once, their numbers would
  depend on chance: an error.
- Waiting unwinds the handler. The wait is written with the job's state. The job holds no slot, and
  the handler is called again when the wait is over.
- During a replay, reports (progress, log, output) are dropped: they were made before.
- A failed step is not complete: the next attempt runs it again. The exception is a failure that the
  handler has caught and *survived*, which is known when it reaches its next step, or waits. Such a
  failure is part of the history and is raised again in a replay. It is written before another
  function runs.
- The same holds for `gather`. Results are copied once, in order: the child jobs have their own
  retention and may be gone at the next replay. Of a failure, only what the handler saw is recorded:
  which job, and why. A failed child can be resumed and succeed later; a handler that has survived
  the failure still sees the failure.
- A step that may run again although the handler has gone on (`wait=False`) is written with the next
  step that is waited for, or with the next report. No ordered step is recorded before a step that
  the handler reached earlier.
- Spawning a job and recording the spawn are one write. So are the end of a wait and all unwritten
  steps before it.
- Events are numbered by name in the order of their arrival, whether a handler waits or not. The
  first `wait_for` takes the first event, the second takes the second. A `wait_for` that timed out
  takes none.
- If the code has changed, the history may not match it. The attempt then fails with an error that
  names the recorded step, and stops there, even if the handler catches the exception. The change is
  noticed when the handler reaches an unrecorded step in the position of a recorded one, and when it
  returns without having reached all recorded steps.

Only *ordered* steps are compared. A step is ordered if the handler itself reached it, not a task or
thread that it started; if no other step was in progress; if the handler was not handling an error
that came from no step; and if the step before it was recorded. All other steps (`Step.overlapped`)
may depend on chance, and may differ in the next run. Nothing is concluded from their position, nor
from a new step in the position of such a one. A step that failed and was not survived, or that
waits for its next attempt, does not have to be reached again: often it is the very code that was
fixed. Nor does a step that is older than its job, which a fork has copied; but no other step may
take its position. And a handler that was interrupted, or has read its attempt number, may return
early.

Failing a correct job would be worse than missing a change. The same steps in another order are
accepted: they are all complete, and nothing runs again.

The function of a step runs at least once: a worker may die between its end and the write. Therefore
each step has a key that is the same in every attempt (`ctx.step_key`), to pass to other systems.

This module holds the journal of one attempt and does no I/O. `effects.py` defines what each
operation does, `step_runner.py` performs it for handlers on a loop and in a thread.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coatcheck.errors import StepsChanged
from coatcheck.model.step import Op, SentEvent, Step, StepId, StepState

_ADVICE = "Resume the job with the original code, or fork it from an earlier step"
_MAX_NAMED = 3  # missing steps in an error message


def _is_history(step: Step) -> bool:
    """Return whether the handler has seen the end of a step, or waits for it."""
    match step.state:
        case StepState.SUCCEEDED:
            return True
        case StepState.FAILED:
            return step.survived
        case StepState.WAITING:
            return step.id.op is not Op.STEP  # a waiting step has failed and will be retried


def _binds(step: Step) -> bool:
    """Return whether the handler must reach a step before any new one."""
    return _is_history(step) and not step.overlapped


@dataclass(slots=True)
class JournalEntry:
    """A step that the handler has reached in this attempt, and its record if there is one."""

    id: StepId
    seq: int
    recorded: Step | None
    overlapped: bool  # not ordered
    caller: object  # the task or thread that reached it
    event: int = 0  # for `wait_for`: the number of its event


class Journal:
    """A job's history, and how far an attempt has replayed it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorded: dict[StepId, Step] = {}
        self._ahead: dict[StepId, Step] = {}  # recorded, and not reached yet
        self._optional: deque[Step] = deque()  # those that need not be reached; may contain others
        self._occurrences: Counter[tuple[Op, str]] = Counter()
        self._in_progress: dict[StepId, JournalEntry] = {}
        self._unwritten: dict[int, Step] = {}
        self._failure_unwritten = False  # _unwritten contains a survived failure
        self._failures: dict[object, list[Step]] = defaultdict(list)
        self._events: dict[str, list[SentEvent]] = defaultdict(list)
        self._events_taken: Counter[str] = Counter()
        self._next_seq = 0
        self._last_left_no_record = False  # of the last completed step
        self._rejected: str | None = None  # why the attempt was rejected

    def load(self, steps: Sequence[Step], events: Sequence[SentEvent]) -> None:
        """Load the history that earlier attempts have written."""
        with self._lock:
            self._recorded = {step.id: step for step in steps}
            self._ahead = dict(self._recorded)
            loose = (step for step in steps if not _binds(step))
            self._optional = deque(sorted(loose, key=lambda step: step.seq))
            self._next_seq = max((step.seq for step in steps), default=-1) + 1
        self.load_events(events)

    def load_events(self, events: Sequence[SentEvent]) -> None:
        """Replace the events that were sent to the job."""
        with self._lock:
            self._events.clear()
            for event in events:
                self._events[event.name].append(event)

    @property
    def replaying(self) -> bool:
        """Whether recorded steps are still to be reached."""
        return bool(self._ahead)

    def begin(
        self, op: Op, name: str, key: str | int | None, caller: object, *, unordered: bool = False
    ) -> JournalEntry:
        """Begin a step. If `unordered`, its position is not compared with the history."""
        with self._lock:
            if self._rejected is not None:
                raise StepsChanged(self._rejected)
            step_id = self._identify(op, name, key)
            recorded = self._recorded.get(step_id)
            ordered = not unordered and not self._in_progress
            if ordered and recorded is None:
                self._check_order(step_id)
            if step_id.key is None:
                self._occurrences[op, name] += 1
            overlapped = not ordered or self._last_left_no_record
            entry = JournalEntry(step_id, self._seq_of(recorded), recorded, overlapped, caller)
            for other_entry in self._in_progress.values():
                other_entry.overlapped = True
            self._in_progress[step_id] = entry
            self._ahead.pop(step_id, None)
            if ordered:
                self._last_left_no_record = False
                self._skip_optional(recorded)
            self._mark_survived(caller)
            if op is Op.EVENT and not (recorded and recorded.state is StepState.FAILED):
                entry.event = self._events_taken[name]
                self._events_taken[name] += 1
            return entry

    def _identify(self, op: Op, name: str, key: str | int | None) -> StepId:
        text = None if key is None else str(key)
        number = 0
        if text is None:
            number = self._occurrences[op, name]
            for other in self._in_progress:
                if (other.op, other.name, other.key) == (op, name, None):
                    raise ValueError(
                        f"two calls of {op} {name!r} are in progress at once; give each its own"
                        " key=, so that a replay can tell them apart"
                    )
        step_id = StepId(op, name, text, number)
        if step_id in self._in_progress:
            raise ValueError(f"{step_id} is already in progress")
        return step_id

    def _seq_of(self, recorded: Step | None) -> int:
        if recorded is not None:
            return recorded.seq
        self._next_seq += 1
        return self._next_seq - 1

    def _check_order(self, step_id: StepId) -> None:
        """Raise if an ordered step is new where another step is recorded."""
        if not self._ahead:
            return
        ahead = filter(_is_history, self._ahead.values())
        first = min(ahead, key=lambda step: step.seq, default=None)
        if first is not None and not first.overlapped:
            raise self.reject_changed(
                f"the code has changed: this job has recorded {first.id} where the code now calls"
                f" {step_id}. {_ADVICE}"
            )

    def _skip_optional(self, recorded: Step | None) -> None:
        """Skip steps that need not be reached and are now behind the handler."""
        if not self._optional:
            return
        if recorded is None:
            for step in self._optional:
                if not _is_history(step):
                    self._ahead.pop(step.id, None)
            self._optional = deque(step for step in self._optional if step.id in self._ahead)
        elif _binds(recorded):
            while self._optional and self._optional[0].seq < recorded.seq:
                self._ahead.pop(self._optional.popleft().id, None)

    def reject_changed(self, why: str) -> StepsChanged:
        """Reject all further steps of the attempt, and return the exception to raise."""
        self._rejected = why
        return StepsChanged(why)

    def check_end(self, created_at: int, *, may_return_early: bool) -> None:
        """Raise StepsChanged if the handler has returned without reaching all steps of its job.

        Steps from before the job's creation were copied by a fork, and need not be reached.
        """
        with self._lock:
            if self._rejected is not None:
                raise StepsChanged(self._rejected)
            if may_return_early:
                return
            ahead = sorted(self._ahead.values(), key=lambda step: step.seq)
        missing = [step for step in ahead if _binds(step) and step.started_at >= created_at]
        if missing:
            names = ", ".join(str(step.id) for step in missing[:_MAX_NAMED])
            more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
            raise StepsChanged(
                f"the code has changed: it returned without reaching the recorded {names}{more}."
                f" {_ADVICE}"
            )

    def complete(self, entry: JournalEntry) -> None:
        """Mark a step as complete: the handler has got its result, or it was interrupted."""
        with self._lock:
            self._in_progress.pop(entry.id, None)
            self._last_left_no_record |= entry.id not in self._recorded

    def record(self, step: Step) -> None:
        """Record a step that was written."""
        with self._lock:
            self._recorded[step.id] = step

    def record_later(self, step: Step) -> None:
        """Record a step that is written with the next write."""
        with self._lock:
            self._recorded[step.id] = step
            self._unwritten[step.seq] = step

    def record_failure(self, entry: JournalEntry, step: Step) -> None:
        """Record a failure that the handler is about to see."""
        with self._lock:
            self._recorded[step.id] = step
            self._failures[entry.caller].append(step)

    def _mark_survived(self, caller: object) -> None:
        for step in self._failures.pop(caller, ()):
            survived = replace(step, survived=True)
            self._recorded[step.id] = survived
            self._unwritten[step.seq] = survived
            self._failure_unwritten = True

    def unwind(self) -> None:
        """Mark all failures as survived: the handler waits, so it has gone on after them."""
        with self._lock:
            for caller in list(self._failures):
                self._mark_survived(caller)

    @property
    def has_unwritten_failure(self) -> bool:
        """Whether a survived failure is not written yet."""
        return self._failure_unwritten

    def take_unwritten(self) -> tuple[Step, ...]:
        """Return the steps to write, in order, and forget them."""
        if not self._unwritten:
            return ()
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
            self._failure_unwritten = False
        return tuple(unwritten[seq] for seq in sorted(unwritten))

    def event(self, entry: JournalEntry) -> SentEvent | None:
        """Return the event that a step waits for, if it has arrived."""
        with self._lock:
            events = self._events.get(entry.id.name, ())
            return events[entry.event] if entry.event < len(events) else None

    def return_event(self, entry: JournalEntry) -> None:
        """Leave the event of a `wait_for` that timed out to the next one."""
        with self._lock:
            self._events_taken[entry.id.name] -= 1
