"""Coatcheck: hand in slow work, get a ticket, come back for the result.

These are the public names; everything else may move.
"""

from typing import TYPE_CHECKING, Any

from coatcheck.app import App
from coatcheck.client.async_client import AsyncClient, AsyncJobHandle
from coatcheck.client.calls import Page
from coatcheck.client.client import Client, JobHandle
from coatcheck.client.event import Event
from coatcheck.client.new_job import NewJob
from coatcheck.errors import (
    CoatcheckError,
    Conflict,
    Fail,
    Gone,
    InvalidInput,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    KeyReused,
    NotFound,
    Overloaded,
    Retry,
    ServerError,
    StepFailed,
    StepsChanged,
    StoreUnavailable,
    TimedOut,
    Unauthorized,
    UnexpectedAnswer,
    UnexpectedResult,
    UnknownKind,
    Unreachable,
)
from coatcheck.model.upload import Upload
from coatcheck.worker.context import Context

if TYPE_CHECKING:
    from coatcheck.wrapping.middleware import Coatcheck

__all__ = [
    "App",
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "Coatcheck",
    "CoatcheckError",
    "Conflict",
    "Context",
    "Event",
    "Fail",
    "Gone",
    "InvalidInput",
    "InvalidPayload",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "KeyReused",
    "NewJob",
    "NotFound",
    "Overloaded",
    "Page",
    "Retry",
    "ServerError",
    "StepFailed",
    "StepsChanged",
    "StoreUnavailable",
    "TimedOut",
    "Unauthorized",
    "UnexpectedAnswer",
    "UnexpectedResult",
    "UnknownKind",
    "Unreachable",
    "Upload",
]


def __getattr__(name: str) -> Any:
    """Import what most who import this need not: a server around an app."""
    if name != "Coatcheck":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from coatcheck.wrapping.middleware import Coatcheck  # noqa: PLC0415

    return Coatcheck
