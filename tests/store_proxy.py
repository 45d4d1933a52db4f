"""A store whose calls a test can intercept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coatcheck.store.base import Store

PARTS: tuple[str, ...] = (
    "jobs",
    "workers",
    "files",
    "queues",
    "records",
    "schedules",
    "webhooks",
    "access",
)
PARTS += ("audit", "rekey", "maintenance")


class PartProxy:
    """A part of a store; each of its verbs is what `wrap` makes of it."""

    def __init__(self, part: Any, wrap: Callable[[str, Any], Any]) -> None:
        self._part = part
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return self._wrap(name, getattr(self._part, name))


class StoreProxy:
    """A store around another one. Subclasses override `wrap`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parts = {name: PartProxy(getattr(store, name), self.wrap) for name in PARTS}

    def wrap(self, name: str, verb: Any) -> Any:
        """Return what is called in place of a verb: a method of the subclass with its name, if any.

        That method finds the verb itself in `self.inner`.
        """
        return getattr(self, name) if name in vars(type(self)) else verb

    def __getattr__(self, name: str) -> Any:
        parts = self.__dict__.get("_parts", {})
        return parts[name] if name in parts else getattr(self._store, name)
