"""Coatcheck: hand in slow work, get a ticket, come back for the result.

These are the public names; everything else may move.
"""

from coatcheck.app import App
from coatcheck.client.client import Client, JobHandle
from coatcheck.errors import (
    CoatcheckError,
    Fail,
    Gone,
    InvalidInput,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    NotFound,
    Retry,
    TimedOut,
)
from coatcheck.worker.context import Context

__all__ = [
    "App",
    "Client",
    "CoatcheckError",
    "Context",
    "Fail",
    "Gone",
    "InvalidInput",
    "InvalidPayload",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "NotFound",
    "Retry",
    "TimedOut",
]
