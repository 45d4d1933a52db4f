"""Roles that may do little, made for one test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg

PASSWORD = "swordfish"
_numbers = itertools.count(1)


def as_role(dsn: str, role: str) -> str:
    """Return the address of the same database for another role."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    # Not _replace: without a host it would lose the slashes.
    return f"{parts.scheme}://{role}:{PASSWORD}@{host}{parts.path}?{parts.query}"


@contextmanager
def new_role(admin: psycopg.Connection[Any]) -> Iterator[str]:
    """Make a role that may log in and nothing else; whatever it owns goes with it."""
    role = f"role_{os.getpid()}_{next(_numbers)}"
    admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
    try:
        yield role
    finally:
        admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
        admin.execute(f"DROP ROLE {role}".encode())
