"""How a handler goes on where it left off.

A handler that was interrupted, by the death of its worker or because it waits, is called again from
its beginning. What it does through `ctx.step` and its like is written down in the job's *journal*,
each under its name and key, in a write that counts only as long as the worker holds the job. When
the handler comes to something that is in the journal as done, it gets what is written there, and
nothing is done again. So it arrives where it was, with the same values, and goes on.

- A step is known by what it is, its name, and its key. Without a key it is the so-many-th of its
  name, which is fixed when `ctx.step` is called, not when it is awaited. Where two steps of one
  name are under way at a time without keys, which is which would depend on chance: an error.
- Waiting unwinds the handler. What it waits for is written with the job's state; the job holds no
  slot, and is called again when it may go on.
- While a handler is on its way back to where it was, what it says (progress, log, output) has been
  said before, and is dropped.
- A step that failed is not done: the next attempt runs it again. Unless the handler had caught the
  failure and gone on, which is known when it comes to its next step, or waits: then the failure is
  part of its history, and is given to it again. It is written before another body is run.
- The same goes for what `gather` gave it. Results are copied, once, in order: the jobs they came
  from are kept by terms of their own and may be gone when the handler comes by again. Of a failure
  only what the handler was told is kept: which job it was, and why. A job that failed can be
  resumed and succeed later; a handler that has gone on is told of the failure all the same.
- A step that may run again although the handler has gone on (`wait=False`) is noted, and written
  with the next that is waited for, or with what the handler says. No step that the handler took in
  line is on record before one that it came to earlier.
- Spawning a job and noting that it was spawned are one write. So are the end of a wait and all that
  was noted before it.
- Events from outside are numbered by name as they come, whether anybody waits or not; the first
  `wait_for` takes the first, the second the second. One that has waited in vain takes none.
- Where the code has changed, the history may not fit it. That attempt then fails, names what is on
  record, and goes no further, whatever the handler makes of the exception. It is noticed when the
  handler comes to a step that is not on record where another is; and when it returns without having
  come to all that are.

What is compared is what the handler did *in line*: itself, not in a task or thread that it started;
with nothing else under way; not while it dealt with an error that no step gave it, nor after a step
that left no trace because it was given up. All else (`Step.overlapped`) may have been the work of
chance, and may be otherwise the next time: of its place nothing is concluded, nor of a step that is
taken where such a one comes next. A step that failed without being survived, or whose next try was
waited for, binds nobody: it is often the very code that was mended. Nor does a step that was there
before its job was, which a fork has taken over; but no other is taken in its place. And a handler
that was told to stop, or has asked which attempt it is, may return early.

To fail a job that is fine would be worse than to miss some. The same steps in another order are not
refused: they are all done, and nothing is run again.

Bodies of steps run at least once: a worker may die between the end of a body and the write. Each
step therefore has a key that is the same whenever it is tried (`ctx.step_key`), to be passed on.

This module keeps the books of one attempt and does no I/O. `operations.py` says what each kind of
step does, `context.py` who does it for handlers of either shape.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coatcheck.errors import StepsChanged
from coatcheck.model.step import Op, SentEvent, Step, StepId, StepState

_WHAT_TO_DO = "Resume the job with the code it began with, or fork it from an earlier step"
_MOST_NAMED = 3  # of those that were not come to


def _is_history(step: Step) -> bool:
    """Tell whether the handler was given the end of a step, or waits for it."""
    match step.state:
        case StepState.SUCCEEDED:
            return True
        case StepState.FAILED:
            return step.survived
        case StepState.WAITING:
            return step.id.op is not Op.STEP  # that is one that failed, and is tried again


def _binds(step: Step) -> bool:
    """Tell whether the handler has to come to a step again, before any that is new."""
    return _is_history(step) and not step.overlapped


@dataclass(slots=True)
class JournalEntry:
    """A step that the handler has come to in this attempt, and what is on record of it."""

    id: StepId
    seq: int
    recorded: Step | None
    overlapped: bool  # not in line
    caller: object  # the task or thread that came to it
    message: int = 0  # for one that waits for an event: which of its name


class Journal:
    """The history of a job, and how far an attempt has come through it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorded: dict[StepId, Step] = {}
        self._ahead: dict[StepId, Step] = {}  # on record, and not come to yet
        self._loose: deque[Step] = deque()  # of these, what need not come; others may be among them
        self._came: Counter[tuple[Op, str]] = Counter()
        self._in_progress: dict[StepId, JournalEntry] = {}
        self._unwritten: dict[int, Step] = {}
        self._survived = False  # a failure, which is among them
        self._failures: dict[object, list[Step]] = defaultdict(list)
        self._messages: dict[str, list[SentEvent]] = defaultdict(list)
        self._expected: Counter[str] = Counter()
        self._next = 0
        self._left_no_trace = False  # the last step that the handler was done with
        self._refused: str | None = None  # why the handler goes no further

    def load(self, steps: Sequence[Step], messages: Sequence[SentEvent]) -> None:
        """Take in what earlier attempts have written."""
        with self._lock:
            self._recorded = {step.id: step for step in steps}
            self._ahead = dict(self._recorded)
            loose = (step for step in steps if not _binds(step))
            self._loose = deque(sorted(loose, key=lambda step: step.seq))
            self._next = max((step.seq for step in steps), default=-1) + 1
        self.learn(messages)

    def learn(self, messages: Sequence[SentEvent]) -> None:
        """Take in what was sent from outside."""
        with self._lock:
            self._messages.clear()
            for message in messages:
                self._messages[message.name].append(message)

    @property
    def replaying(self) -> bool:
        """Whether the handler is on its way back to where it was."""
        return bool(self._ahead)

    def come_to(
        self, op: Op, name: str, key: str | int | None, caller: object, *, aside: bool = False
    ) -> JournalEntry:
        """The handler begins a step; `aside` where its place says nothing whatever else goes on."""
        with self._lock:
            if self._refused is not None:
                raise StepsChanged(self._refused)
            step_id = self._identify(op, name, key)
            recorded = self._recorded.get(step_id)
            in_line = not aside and not self._in_progress
            if in_line and recorded is None:
                self._refuse_what_does_not_fit(step_id)
            if step_id.key is None:
                self._came[op, name] += 1
            overlapped = not in_line or self._left_no_trace
            entry = JournalEntry(step_id, self._number(recorded), recorded, overlapped, caller)
            for other_entry in self._in_progress.values():
                other_entry.overlapped = True
            self._in_progress[step_id] = entry
            self._ahead.pop(step_id, None)
            if in_line:
                self._left_no_trace = False
                self._pass(recorded)
            self._went_on(caller)
            if op is Op.EVENT and not (recorded and recorded.state is StepState.FAILED):
                entry.message = self._expected[name]
                self._expected[name] += 1
            return entry

    def _identify(self, op: Op, name: str, key: str | int | None) -> StepId:
        text = None if key is None else str(key)
        number = 0
        if text is None:
            number = self._came[op, name]
            for other in self._in_progress:
                if (other.op, other.name, other.key) == (op, name, None):
                    raise ValueError(
                        f"two of {op} {name!r} are under way at a time; give each a key= of its"
                        " own, so that each can be told from the other later"
                    )
        step_id = StepId(op, name, text, number)
        if step_id in self._in_progress:
            raise ValueError(f"{step_id} is under way already")
        return step_id

    def _number(self, recorded: Step | None) -> int:
        if recorded is not None:
            return recorded.seq
        self._next += 1
        return self._next - 1

    def _refuse_what_does_not_fit(self, step_id: StepId) -> None:
        """Raise if the handler comes, in line, to a step where another one is on record."""
        if not self._ahead:
            return
        ahead = filter(_is_history, self._ahead.values())
        first = min(ahead, key=lambda step: step.seq, default=None)
        if first is not None and not first.overlapped:
            raise self.refusal(
                f"this job has {first.id} on record, where the code now takes {step_id}: it has"
                f" changed since. {_WHAT_TO_DO}"
            )

    def _pass(self, recorded: Step | None) -> None:
        """Leave behind what need not come any more, now that the handler is further on."""
        if not self._loose:
            return
        if recorded is None:
            for step in self._loose:
                if not _is_history(step):
                    self._ahead.pop(step.id, None)
            self._loose = deque(step for step in self._loose if step.id in self._ahead)
        elif _binds(recorded):
            while self._loose and self._loose[0].seq < recorded.seq:
                self._ahead.pop(self._loose.popleft().id, None)

    def refusal(self, why: str) -> StepsChanged:
        """Let the handler go no further, and return what to raise."""
        self._refused = why
        return StepsChanged(why)

    def check_end(self, made_at: int, *, may_be_early: bool) -> None:
        """The handler has returned: raise StepsChanged if it should have come to more. Steps from
        before its job was made are those of another job.
        """
        with self._lock:
            if self._refused is not None:
                raise StepsChanged(self._refused)
            if may_be_early:
                return
            ahead = sorted(self._ahead.values(), key=lambda step: step.seq)
        missed = [step for step in ahead if _binds(step) and step.started_at >= made_at]
        if missed:
            names = ", ".join(str(step.id) for step in missed[:_MOST_NAMED])
            more = f" and {len(missed) - _MOST_NAMED} more" if len(missed) > _MOST_NAMED else ""
            raise StepsChanged(
                f"this job has {names}{more} on record, and the code has returned without coming to"
                f" that: it has changed since. {_WHAT_TO_DO}"
            )

    def done_with(self, entry: JournalEntry) -> None:
        """The handler is given the end of a step, or the step was interrupted."""
        with self._lock:
            self._in_progress.pop(entry.id, None)
            self._left_no_trace |= entry.id not in self._recorded

    def keep(self, step: Step) -> None:
        """A step was written."""
        with self._lock:
            self._recorded[step.id] = step

    def note(self, step: Step) -> None:
        """Have a step written with the next write; nothing depends on it before."""
        with self._lock:
            self._recorded[step.id] = step
            self._unwritten[step.seq] = step

    def failed(self, entry: JournalEntry, step: Step) -> None:
        """A failure that is on record is given to the handler."""
        with self._lock:
            self._recorded[step.id] = step
            self._failures[entry.caller].append(step)

    def _went_on(self, caller: object) -> None:
        for step in self._failures.pop(caller, ()):
            survived = replace(step, survived=True)
            self._recorded[step.id] = survived
            self._unwritten[step.seq] = survived
            self._survived = True

    def unwind(self) -> None:
        """The handler waits: it has gone on after every failure it was given."""
        with self._lock:
            for caller in list(self._failures):
                self._went_on(caller)

    @property
    def went_another_way(self) -> bool:
        """Whether the handler goes on after a failure, and that is not on record yet."""
        return self._survived

    def take_unwritten(self) -> tuple[Step, ...]:
        """Return what was noted since the last time, in order."""
        if not self._unwritten:
            return ()
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
            self._survived = False
        return tuple(unwritten[seq] for seq in sorted(unwritten))

    def message(self, entry: JournalEntry) -> SentEvent | None:
        """Return the event that a step waits for, if it has come."""
        with self._lock:
            messages = self._messages.get(entry.id.name, ())
            return messages[entry.message] if entry.message < len(messages) else None

    def gave_up(self, entry: JournalEntry) -> None:
        """A step waited for an event in vain: it is left to the next that waits for one."""
        with self._lock:
            self._expected[entry.id.name] -= 1
