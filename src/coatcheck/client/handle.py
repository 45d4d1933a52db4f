"""What both kinds of handles know of their job."""

from __future__ import annotations

from typing import Any, Generic

from pydantic import TypeAdapter
from typing_extensions import TypeVar  # with a default, which Python 3.13 has

from coatcheck.client.results import outcome_of

# The type of the job's result; a handle for which none was given returns what JSON gives.
ResultT = TypeVar("ResultT", default=Any)


class Handle(Generic[ResultT]):
    """A job that was handed in: `id`, and `job` as it was last seen."""

    def __init__(self, job: dict[str, Any], result_type: TypeAdapter[Any]) -> None:
        self.id: str = job["id"]
        self.job = job
        self._result_type = result_type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.job['kind']} {self.job['state']}>"

    def _keep(self, job: dict[str, Any]) -> dict[str, Any]:
        self.job = job
        return job

    def _outcome(self, job: dict[str, Any], timeout: float) -> ResultT:
        outcome: ResultT = outcome_of(self._keep(job), timeout, self._result_type)
        return outcome
