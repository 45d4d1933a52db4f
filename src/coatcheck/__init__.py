"""Coatcheck: submit slow work as durable jobs, and come back for the results.

These are the public names; everything else may move. Each is imported when it is first used, so a
client does not load the worker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coatcheck.app import App
    from coatcheck.client.async_client import AsyncClient, AsyncJobHandle
    from coatcheck.client.calls.events import Event
    from coatcheck.client.calls.jobs import Page
    from coatcheck.client.client import Client, JobHandle
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
    from coatcheck.middleware.middleware import Coatcheck
    from coatcheck.model.options import Limits, Retention, RetryPolicy, SurfaceOptions
    from coatcheck.model.upload import Upload
    from coatcheck.worker.steps.context import Context

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
    "Limits",
    "NewJob",
    "NotFound",
    "Overloaded",
    "Page",
    "Retention",
    "Retry",
    "RetryPolicy",
    "ServerError",
    "StepFailed",
    "StepsChanged",
    "StoreUnavailable",
    "SurfaceOptions",
    "TimedOut",
    "Unauthorized",
    "UnexpectedAnswer",
    "UnexpectedResult",
    "UnknownKind",
    "Unreachable",
    "Upload",
]

_MODULES = {
    "coatcheck.app": ("App",),
    "coatcheck.client.async_client": (
        "AsyncClient",
        "AsyncJobHandle",
    ),
    "coatcheck.client.calls.jobs": ("Page",),
    "coatcheck.client.client": (
        "Client",
        "JobHandle",
    ),
    "coatcheck.client.calls.events": ("Event",),
    "coatcheck.client.new_job": ("NewJob",),
    "coatcheck.errors": (
        "CoatcheckError",
        "Conflict",
        "Fail",
        "Gone",
        "InvalidInput",
        "InvalidPayload",
        "JobCancelled",
        "JobFailed",
        "KeyReused",
        "NotFound",
        "Overloaded",
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
    ),
    "coatcheck.model.options": ("Limits", "Retention", "RetryPolicy", "SurfaceOptions"),
    "coatcheck.model.upload": ("Upload",),
    "coatcheck.worker.steps.context": ("Context",),
    "coatcheck.middleware.middleware": ("Coatcheck",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
