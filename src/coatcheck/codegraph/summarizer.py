"""From a file's bytes to its summary, in this process or in several.

The tree is dropped as soon as the file is read; what goes from process to process are bytes one way
and summaries the other, a few hundred kilobytes at a time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, cycle
from multiprocessing.connection import Connection
from queue import SimpleQueue
from traceback import format_exception
from typing import Any, NamedTuple, Protocol, cast

from tree_sitter import Node

from coatcheck.codegraph.collector import without_collecting
from coatcheck.codegraph.javascript.statements import (
    JavaScriptStatements,
)
from coatcheck.codegraph.languages import ParseBudget, language_of
from coatcheck.codegraph.packages.go import GoReader
from coatcheck.codegraph.packages.java import JavaReader
from coatcheck.codegraph.python.statements import PythonStatements
from coatcheck.codegraph.python.summary import PythonSummary
from coatcheck.codegraph.source import (
    SourceFile,
    UnreadableSource,
    read_text,
    without_long_comments,
)
from coatcheck.codegraph.tagged.grammar import GRAMMARS
from coatcheck.codegraph.tagged.reader import TaggedReader

TOO_SLOW = "not parsed: it takes too long for its size"
# How much is read together.
BATCH_BYTES = 512 * 1024
# Starting processes takes longer than reading this much in this one.
SMALL_BYTES = 2 * 1024 * 1024


class _Reader(Protocol):
    too_deep_line: int

    def file(self, root: Node) -> Any: ...


_READERS: dict[str, type[PythonStatements | JavaScriptStatements | JavaReader | GoReader]] = {
    "python": PythonStatements,
    "javascript": JavaScriptStatements,
    "typescript": JavaScriptStatements,
    "tsx": JavaScriptStatements,
    "java": JavaReader,
    "go": GoReader,
}


class SourceReader(NamedTuple):
    """A file that was read: its summary, unless it says nothing, and what is to be told of it.

    A `PythonSummary` is packed where there are many.
    """

    path: str
    language: str
    summary: Any
    reason: str | None  # why it is not, or not wholly, in the graph


def summarise_one(
    path: str, content: bytes, *, with_calls: bool = True, budget: ParseBudget | None = None
) -> SourceReader:
    """Read one file; without the calls, there may be less of it to read."""
    language = language_of(path) or ""
    try:
        source = read_text(path, content)
        if language == "python":
            source = without_long_comments(source)
    except UnreadableSource as problem:
        return SourceReader(path, language, None, str(problem))
    tree = (budget or ParseBudget(len(source))).parse(language, source)
    if tree is None:
        return SourceReader(path, language, None, TOO_SLOW)
    root = tree.root_node
    reader = _reader_of(language, source, with_calls)
    try:
        summary = reader.file(root)
    except Exception as error:  # noqa: BLE001 - a hole in a reader costs one file, not the graph
        return SourceReader(path, language, None, f"the reader failed ({type(error).__name__})")
    if not with_calls and isinstance(summary, PythonSummary):
        summary.forget("actions")
    too_deep = reader.too_deep_line
    # It refers to itself; let go of it and of the tree now.
    vars(reader).clear()
    reason = None
    if root.has_error:
        reason = (
            f"syntax error near line {_first_error(root)}; the rest of the file is in the graph"
        )
    elif too_deep:
        reason = f"nested too deeply at line {too_deep}; the rest of the file is in the graph"
    return SourceReader(path, language, summary, reason)


def _reader_of(language: str, source: bytes, with_calls: bool) -> _Reader:
    if language in GRAMMARS:
        return TaggedReader(source, language)
    reader = _READERS[language](source)
    reader.with_calls = with_calls
    return reader


def _first_error(root: Node) -> int:
    node = root
    while True:
        broken = next(
            (child for child in node.children if child.has_error or child.is_missing), None
        )
        if broken is None or node.is_error:
            return node.start_point.row + 1
        node = broken


def _summarise_batch(with_calls: bool, batch: list[tuple[str, bytes]]) -> list[SourceReader]:
    budget = ParseBudget(sum(len(content) for _, content in batch))
    with without_collecting():
        return [
            _packed(summarise_one(path, content, with_calls=with_calls, budget=budget))
            for path, content in batch
        ]


def _packed(read: SourceReader) -> SourceReader:
    if isinstance(read.summary, PythonSummary):
        return read._replace(summary=read.summary.pack())
    return read


def summarise_all(
    files: Iterable[SourceFile], workers: int | None, *, with_calls: bool = True
) -> Iterator[SourceReader]:
    """Read files, in their order, on so many processes; None: as many as there are cores."""
    count = workers if workers is not None else len(os.sched_getaffinity(0))
    batches = _batches(files)
    summarise = partial(_summarise_batch, with_calls)
    first: list[list[tuple[str, bytes]]] = []
    size = 0
    for batch in batches:
        first.append(batch)
        size += sum(len(content) for _, content in batch)
        if size > SMALL_BYTES:
            break
    if count < 2 or size <= SMALL_BYTES:
        for batch in first:
            yield from summarise(batch)
        for batch in batches:
            yield from summarise(batch)
        return
    yield from _on_processes(summarise, first, batches, count)


def _on_processes(
    summarise: Callable[[list[tuple[str, bytes]]], list[SourceReader]],
    first: list[list[tuple[str, bytes]]],
    batches: Iterator[list[tuple[str, bytes]]],
    count: int,
) -> Iterator[SourceReader]:
    readers = [_ReaderProcess(summarise) for _ in range(count)]
    running: deque[_ReaderProcess] = deque()
    try:
        for reader, batch in zip(cycle(readers), chain(first, batches), strict=False):
            # Each has one batch at hand beside the one that it reads.
            while len(running) >= 2 * count:
                yield from running.popleft().receive()
            reader.send(batch)
            running.append(reader)
        first.clear()
        while running:
            yield from running.popleft().receive()
    finally:
        for reader in readers:
            reader.close()


class _ReaderProcess:
    """A process that reads batches, in their order. It is spoken to over a pair of sockets alone:
    a pool of the standard library needs named semaphores, which a confined process cannot make.
    """

    def __init__(self, summarise: Callable[[list[tuple[str, bytes]]], list[SourceReader]]) -> None:
        # A fresh interpreter: forking a process that has threads or event loops is not safe.
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_read_batches, args=(theirs, summarise), daemon=True)
        self._process.start()
        theirs.close()
        self._unsent: SimpleQueue[list[tuple[str, bytes]] | None] = SimpleQueue()
        # A batch is larger than what the kernel buffers: a reader that sends must be heard.
        self._sending = threading.Thread(target=self._send_all, daemon=True)
        self._sending.start()

    def send(self, batch: list[tuple[str, bytes]]) -> None:
        """Give it a batch."""
        self._unsent.put(batch)

    def receive(self) -> list[SourceReader]:
        """Return what is in the first batch that it was given and has not answered."""
        try:
            found = self._ours.recv()
        except (EOFError, ConnectionResetError):
            raise BrokenProcessPool("a process that reads files has ended") from None
        if isinstance(found, _Failed):
            raise found.error from _ReaderTraceback(found.trace)
        return cast("list[SourceReader]", found)

    def close(self) -> None:
        """End it."""
        self._unsent.put(None)
        self._process.kill()
        self._process.join()
        self._sending.join()
        self._ours.close()

    def _send_all(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            while (batch := self._unsent.get()) is not None:
                self._ours.send(batch)


class _Failed(NamedTuple):
    """A batch that was not read: the error, and where in the process it was raised."""

    error: Exception
    trace: str


class _ReaderTraceback(Exception):
    """Where an error was raised in a process that reads files."""


def _read_batches(
    theirs: Connection, summarise: Callable[[list[tuple[str, bytes]]], list[SourceReader]]
) -> None:
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            batch = theirs.recv()
            try:
                found: object = summarise(batch)
            except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
                found = _Failed(error, "".join(format_exception(error)))
            theirs.send(found)


def _batches(files: Iterable[SourceFile]) -> Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for file in files:
        content = file.read()
        batch.append((file.path, content))
        size += len(content)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
