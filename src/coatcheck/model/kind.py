"""Kinds of jobs: a name, the types of input and result, and the options of its jobs.

The handler is an opaque callable here; only a worker calls it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from coatcheck.errors import InvalidPayload
from coatcheck.model.confinement import Confinement
from coatcheck.model.job import DEFAULT_QUEUE, Job, Terms
from coatcheck.model.limit import LONGEST_KEY, Limit
from coatcheck.model.upload import NOTED
from coatcheck.model.webhook_format import WebhookFormat

# The most digits of a number that Python parses.
LONGEST_NUMBER = 4_300
_LONG_NUMBER = re.compile(rf"\d{{{LONGEST_NUMBER + 1}}}")

Isolation = Literal["async", "thread", "process"]
OnLost = Literal["requeue", "resume", "fail"]
OnDrain = Literal["release", "fail"]
OnOverrun = Literal["retry", "fail"]
# Returns the input of a fork, from an input, the source job, the id of the fork, and whether the
# client gave the input; otherwise it is the source's.
ForkInput = Callable[[str, Job, str, bool], str]


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before the next attempt: doubling, capped, spread by jitter."""

    first_ms: int = 1_000
    cap_ms: int = 300_000

    def delay(self, attempt: int, spread: Callable[[], float] = random.random) -> int:
        """Return the delay after so many failed attempts, between half and all of the step."""
        step = min(self.cap_ms, self.first_ms << min(attempt - 1, 40))
        return round(step * (0.5 + spread() / 2))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job, as an App declares it."""

    name: str
    handler: Callable[..., Any]
    takes_input: bool
    isolation: Isolation
    input_type: TypeAdapter[Any]
    result_type: TypeAdapter[Any]
    queue: str = DEFAULT_QUEUE
    terms: Terms = field(default_factory=Terms)
    backoff: Backoff = field(default_factory=Backoff)
    slots: int = 0  # processes per worker, unless the operator sets them; 0: one per core
    memory: int | None = None  # bytes a job may add to its process; None: no limit
    confinement: Confinement | None = None  # None: its processes may do what the worker may
    payload_ttl_ms: int | None = None  # None: an input lives as long as its job
    drop_input_on_end: bool = False
    limit: Limit | None = None
    concurrency_key: Callable[[Any], Any] | None = None
    # By how many milliseconds jobs of a queue count as older; called at every claim.
    age_boosts: Callable[[], Mapping[str, int]] | None = None
    version: str | None = None  # a job that has started continues only under its version
    internal: bool = False  # only its surface submits its jobs
    on_drain: OnDrain = "release"  # for a job that a stopping worker interrupts
    on_overrun: OnOverrun = "retry"  # for an attempt that exceeded its time or memory
    webhook_format: WebhookFormat | None = (
        None  # None: its jobs' own endpoints get Standard Webhooks
    )
    fork_input: ForkInput | None = None  # None: a fork gets its source's input unchanged

    def key_of(self, value: Any) -> str | None:
        """Return the limit key for an input, or None.

        Raises InvalidPayload if `concurrency_key` fails or returns an unsuitable value.
        """
        if self.concurrency_key is None:
            return None
        try:
            key = self.concurrency_key(value)
        except Exception as error:
            raise self._no_key(f"its concurrency_key raised {type(error).__name__}") from error
        if key is None:
            return None
        if not isinstance(key, str | int):
            raise self._no_key(f"its concurrency_key is no text but a {type(key).__name__}")
        if not 1 <= len(text := str(key)) <= LONGEST_KEY or not text.isprintable():
            raise self._no_key(f"its concurrency_key has not 1 to {LONGEST_KEY} plain characters")
        return text

    def _no_key(self, why: str) -> InvalidPayload:
        return InvalidPayload(f"kind {self.name!r} cannot take this input: {why}", [("", why)])

    def check_input(self, text: str | bytes) -> list[str]:
        """Validate a JSON text against the input type; return the ids of the uploads it names.

        Raises InvalidPayload with the location of each problem.
        """
        uploads: list[str] = []
        self.read_input(text, {NOTED: uploads})
        return uploads

    def read_input(self, text: str | bytes, context: dict[str, Any] | None = None) -> Any:
        """Parse a JSON text into the handler's input; raises InvalidPayload."""
        try:
            # The same as the adapter's `validate_json`, without its overhead.
            return self.input_type.validator.validate_json(text, context=context)
        except ValidationError as error:
            problems = [
                (pointer(item["loc"]), item["msg"])
                for item in error.errors(include_url=False, include_input=False)
            ]
            where = "; ".join(f"{place or '/'}: {detail}" for place, detail in problems[:3])
            raise InvalidPayload(
                f"the input does not fit kind {self.name!r}: {where}", problems
            ) from error

    def check_result(self, text: str) -> None:
        """Validate a JSON text against the result type; raises InvalidPayload."""
        try:
            self.result_type.validate_json(text)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            problems = [(f"/result{pointer(item['loc'])}", item["msg"]) for item in found]
            raise InvalidPayload(
                f"the result does not fit kind {self.name!r}: {problems[0][1]}", problems
            ) from error

    def write_result(self, value: object) -> str:
        """Serialize a handler's return value to JSON; raises pydantic's error if it cannot."""
        text = self.result_type.serializer.to_json(value, warnings="error").decode()
        if len(text) > LONGEST_NUMBER and _LONG_NUMBER.search(text):
            json.loads(text)  # raises ValueError for a number with too many digits
        return text

    def input_schema(self, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
        """Return the JSON Schema of the input; empty if it has none."""
        return _schema(self.input_type, "validation", ref_template)

    def result_schema(self, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
        """Return the JSON Schema of the result; empty if it has none."""
        return _schema(self.result_type, "serialization", ref_template)


def _schema(
    adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"], ref_template: str
) -> dict[str, Any]:
    try:
        return adapter.json_schema(mode=mode, ref_template=ref_template)
    except PydanticInvalidForJsonSchema:
        return {}


def pointer(location: Sequence[str | int]) -> str:
    """Format a location in a JSON document as a JSON pointer (RFC 6901); the root is empty."""
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in location)
    return "".join(f"/{part}" for part in parts)
