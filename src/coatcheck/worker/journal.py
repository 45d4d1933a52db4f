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
  failure and gone on, which is known when it comes to its next step: then the failure is part of
  its history, and is given to it again.
- Spawning a job and noting that it was spawned are one write. So are the end of a wait and all that
  was noted before it.
- Events from outside are numbered by name as they come, whether anybody waits or not; the first
  `wait_for` takes the first, the second the second. One that has waited in vain takes none.
- Where the code has changed, the history may not fit it. In a handler that takes one step after the
  other, a step that was never taken before, while others are still on record, says so: that attempt
  fails and names both, and nothing is run. Where steps were under way at the same time their order
  says nothing, and this cannot be noticed.

Bodies of steps run at least once: a worker may die between the end of a body and the write. Each
step therefore has a key that is the same whenever it is tried (`ctx.step_key`), to be passed on.

This module keeps the books of one attempt and does no I/O. `operations.py` says what each kind of
step does, `context.py` who does it for handlers of either shape.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coatcheck.errors import StepsChanged
from coatcheck.model.step import Message, Op, Step, StepId, StepState


@dataclass(slots=True)
class Entry:
    """A step that the handler has come to in this attempt, and what is on record of it."""

    id: StepId
    seq: int
    recorded: Step | None
    overlapped: bool
    caller: object  # the task or thread that came to it
    message: int = 0  # for one that waits for an event: which of its name


class Journal:
    """The history of a job, and how far an attempt has come through it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorded: dict[StepId, Step] = {}
        self._ahead: dict[StepId, Step] = {}  # on record, and not come to yet
        self._came: Counter[tuple[Op, str]] = Counter()
        self._under_way: dict[StepId, Entry] = {}
        self._unwritten: dict[int, Step] = {}
        self._failures: dict[object, list[Step]] = defaultdict(list)
        self._messages: dict[str, list[Message]] = defaultdict(list)
        self._expected: Counter[str] = Counter()
        self._next = 0

    def load(self, steps: Sequence[Step], messages: Sequence[Message]) -> None:
        """Take in what earlier attempts have written."""
        with self._lock:
            self._recorded = {step.id: step for step in steps}
            self._ahead = dict(self._recorded)
            self._next = max((step.seq for step in steps), default=-1) + 1
        self.learn(messages)

    def learn(self, messages: Sequence[Message]) -> None:
        """Take in what was sent from outside."""
        with self._lock:
            self._messages.clear()
            for message in messages:
                self._messages[message.name].append(message)

    @property
    def replaying(self) -> bool:
        """Whether the handler is on its way back to where it was."""
        return bool(self._ahead)

    def come_to(self, op: Op, name: str, key: str | int | None, caller: object) -> Entry:
        """The handler begins a step."""
        with self._lock:
            text = None if key is None else str(key)
            number = 0
            if text is None:
                number = self._came[op, name]
                for other in self._under_way:
                    if (other.op, other.name, other.key) == (op, name, None):
                        raise ValueError(
                            f"two of {op} {name!r} are under way at a time; give each a key= of its"
                            " own, so that each can be told from the other later"
                        )
            step_id = StepId(op, name, text, number)
            if step_id in self._under_way:
                raise ValueError(f"{step_id} is under way already")
            recorded = self._recorded.get(step_id)
            self._refuse_what_does_not_fit(step_id, recorded)
            if text is None:
                self._came[op, name] += 1
            entry = Entry(step_id, self._number(recorded), recorded, bool(self._under_way), caller)
            for other_entry in self._under_way.values():
                other_entry.overlapped = True
            self._under_way[step_id] = entry
            self._ahead.pop(step_id, None)
            self._went_on(caller)
            if op is Op.EVENT and not (recorded and recorded.state is StepState.FAILED):
                entry.message = self._expected[name]
                self._expected[name] += 1
            return entry

    def _number(self, recorded: Step | None) -> int:
        if recorded is not None:
            return recorded.seq
        self._next += 1
        return self._next - 1

    def _refuse_what_does_not_fit(self, step_id: StepId, recorded: Step | None) -> None:
        if recorded is not None or self._under_way or not self._ahead:
            return
        if any(step.overlapped for step in self._recorded.values()):
            return
        first = min(self._ahead.values(), key=lambda step: step.seq)
        raise StepsChanged(
            f"this job has {first.id} on record, where the code now takes {step_id}: it has changed"
            " since. Resume the job with the code it began with, or fork it from an earlier step"
        )

    def done_with(self, entry: Entry) -> None:
        """The handler is given the end of a step, or the step was interrupted."""
        with self._lock:
            self._under_way.pop(entry.id, None)

    def keep(self, step: Step) -> None:
        """A step was written."""
        with self._lock:
            self._recorded[step.id] = step

    def note(self, step: Step) -> None:
        """Have a step written with the next write; nothing depends on it before."""
        with self._lock:
            self._recorded[step.id] = step
            self._unwritten[step.seq] = step

    def failed(self, entry: Entry, step: Step) -> None:
        """A failure that is on record is given to the handler."""
        with self._lock:
            self._recorded[step.id] = step
            self._failures[entry.caller].append(step)

    def _went_on(self, caller: object) -> None:
        for step in self._failures.pop(caller, ()):
            survived = replace(step, survived=True)
            self._recorded[step.id] = survived
            self._unwritten[step.seq] = survived

    def unwind(self) -> None:
        """The handler waits: it has gone on after every failure it was given."""
        with self._lock:
            for caller in list(self._failures):
                self._went_on(caller)

    def take_unwritten(self) -> tuple[Step, ...]:
        """Return what was noted since the last time, in order."""
        if not self._unwritten:
            return ()
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
        return tuple(unwritten[seq] for seq in sorted(unwritten))

    def message(self, entry: Entry) -> Message | None:
        """Return the event that a step waits for, if it has come."""
        with self._lock:
            messages = self._messages.get(entry.id.name, ())
            return messages[entry.message] if entry.message < len(messages) else None

    def gave_up(self, entry: Entry) -> None:
        """A step waited for an event in vain: it is left to the next that waits for one."""
        with self._lock:
            self._expected[entry.id.name] -= 1
