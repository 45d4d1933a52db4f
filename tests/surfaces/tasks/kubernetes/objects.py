"""The objects of the fake cluster, with versions, history and watches."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Gone(Exception):
    """The history does not go back that far."""


class Objects:
    """All objects by kind and name, and their history."""

    def __init__(self) -> None:
        self.version = 1000
        self.oldest = 1000  # older versions can no longer be watched
        self._all: dict[tuple[str, str], Document] = {}
        self._history: list[tuple[int, str, str, Document]] = []
        self._changed = asyncio.Event()

    def get(self, kind: str, name: str) -> Document | None:
        return self._all.get((kind, name))

    def list(self, kind: str, labels: dict[str, str]) -> list[Document]:
        every = [one for (of, _), one in self._all.items() if of == kind]
        return [copy.deepcopy(one) for one in every if _has(one, labels)]

    def create(self, kind: str, document: Document) -> Document:
        metadata = document["metadata"]
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        self._all[kind, metadata["name"]] = document
        self._record("ADDED", kind, document)
        return document

    def changed(self, kind: str, document: Document) -> None:
        if (kind, document["metadata"]["name"]) in self._all:
            self._record("MODIFIED", kind, document)

    def remove(self, kind: str, name: str) -> None:
        if (document := self._all.pop((kind, name), None)) is not None:
            self._record("DELETED", kind, document)

    def _record(self, what: str, kind: str, document: Document) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self._history.append((self.version, what, kind, copy.deepcopy(document)))
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def watch(
        self, kind: str, labels: dict[str, str], version: int
    ) -> AsyncIterator[tuple[str, Document]]:
        if version < self.oldest:
            raise Gone
        while True:
            changed = self._changed
            for at, what, of, document in list(self._history):
                if at > version:
                    version = at
                    if of == kind and _has(document, labels):
                        yield what, document
            await changed.wait()


def _has(document: Document, labels: dict[str, str]) -> bool:
    own = document["metadata"].get("labels", {})
    return all(own.get(key) == value for key, value in labels.items())
