"""Reads files into summaries, in this process or in several.

The syntax tree is dropped as soon as the file is read. Batches of a few hundred kilobytes of source
go to the reader processes; packed summaries come back.
"""

from __future__ import annotations

import contextlib
import gc
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

from coatcheck.codegraph.javascript.statements import JavaScriptStatements
from coatcheck.codegraph.languages import ParseBudget, language_of
from coatcheck.codegraph.packages.go import GoReader
from coatcheck.codegraph.packages.java import JavaReader
from coatcheck.codegraph.python.statements import PythonStatements
from coatcheck.codegraph.source import (
    SourceFile,
    UnreadableSource,
    blank_long_comments,
    read_text,
)
from coatcheck.codegraph.summary import ModuleSummary
from coatcheck.codegraph.tagged.grammar import GRAMMARS
from coatcheck.codegraph.tagged.reader import TaggedReader

TOO_SLOW = "not parsed: it takes too long for its size"
# The size of a batch.
BATCH_BYTES = 512 * 1024
# Reading less than this takes less time than starting processes.
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


class FileSummary(NamedTuple):
    """The summary of a file, None if it was skipped; a `ModuleSummary` is packed in batches."""

    path: str
    language: str
    summary: Any
    reason: str | None  # why it is not, or only partly, in the graph


def summarize_file(
    path: str, content: bytes, *, with_calls: bool = True, budget: ParseBudget | None = None
) -> FileSummary:
    """Read one file; without calls, much of it need not be read."""
    language = language_of(path) or ""
    try:
        source = read_text(path, content)
        if language == "python":
            source = blank_long_comments(source)
    except UnreadableSource as problem:
        return FileSummary(path, language, None, str(problem))
    tree = (budget or ParseBudget(len(source))).parse(language, source)
    if tree is None:
        return FileSummary(path, language, None, TOO_SLOW)
    root = tree.root_node
    reader = _reader_of(language, source, with_calls)
    try:
        summary = reader.file(root)
    except Exception as error:  # noqa: BLE001 - a bug in a reader costs one file, not the graph
        return FileSummary(path, language, None, f"the reader failed ({type(error).__name__})")
    if not with_calls and isinstance(summary, ModuleSummary):
        summary.drop("actions")
    too_deep = reader.too_deep_line
    # The reader refers to itself; release it and the tree now.
    vars(reader).clear()
    reason = None
    if root.has_error:
        reason = (
            f"syntax error near line {_first_error(root)}; the rest of the file is in the graph"
        )
    elif too_deep:
        reason = f"nested too deeply at line {too_deep}; the rest of the file is in the graph"
    return FileSummary(path, language, summary, reason)


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


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the garbage collector: there is much to traverse and no cyclic garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _summarize_batch(with_calls: bool, batch: list[tuple[str, bytes]]) -> list[FileSummary]:
    budget = ParseBudget(sum(len(content) for _, content in batch))
    with gc_disabled():
        return [
            _packed(summarize_file(path, content, with_calls=with_calls, budget=budget))
            for path, content in batch
        ]


def _packed(read: FileSummary) -> FileSummary:
    if isinstance(read.summary, ModuleSummary):
        return read._replace(summary=read.summary.pack())
    return read


def summarize_files(
    files: Iterable[SourceFile], workers: int | None, *, with_calls: bool = True
) -> Iterator[FileSummary]:
    """Read files in order on a number of processes; None is one for each core."""
    count = workers if workers is not None else len(os.sched_getaffinity(0))
    batches = _batches(files)
    summarize = partial(_summarize_batch, with_calls)
    first: list[list[tuple[str, bytes]]] = []
    size = 0
    for batch in batches:
        first.append(batch)
        size += sum(len(content) for _, content in batch)
        if size > SMALL_BYTES:
            break
    if count < 2 or size <= SMALL_BYTES:
        for batch in first:
            yield from summarize(batch)
        for batch in batches:
            yield from summarize(batch)
        return
    yield from _on_processes(summarize, first, batches, count)


def _on_processes(
    summarize: Callable[[list[tuple[str, bytes]]], list[FileSummary]],
    first: list[list[tuple[str, bytes]]],
    batches: Iterator[list[tuple[str, bytes]]],
    count: int,
) -> Iterator[FileSummary]:
    readers = [_ReaderProcess(summarize) for _ in range(count)]
    running: deque[_ReaderProcess] = deque()
    try:
        for reader, batch in zip(cycle(readers), chain(first, batches), strict=False):
            # Each reader has one batch waiting beside the one that it reads.
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
    """A process that reads batches in order.

    The only connection is a pair of sockets: a pool of the standard library needs named semaphores,
    which a sandboxed process cannot create.
    """

    def __init__(self, summarize: Callable[[list[tuple[str, bytes]]], list[FileSummary]]) -> None:
        # A fresh interpreter: forking a process with threads or event loops is not safe.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_read_batches, args=(theirs, summarize), daemon=True)
        self._process.start()
        theirs.close()
        self._outbox: SimpleQueue[list[tuple[str, bytes]] | None] = SimpleQueue()
        # A batch exceeds the socket buffer: both sides would block if this thread sent it.
        self._sender = threading.Thread(target=self._send_all, daemon=True)
        self._sender.start()

    def send(self, batch: list[tuple[str, bytes]]) -> None:
        """Queue a batch."""
        self._outbox.put(batch)

    def receive(self) -> list[FileSummary]:
        """Return the summaries of the oldest batch without a response."""
        try:
            found = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise BrokenProcessPool("a reader process has ended") from None
        if isinstance(found, _Failed):
            raise found.error from _ReaderTraceback(found.trace)
        return cast("list[FileSummary]", found)

    def close(self) -> None:
        """Kill the process."""
        self._outbox.put(None)
        self._process.kill()
        self._process.join()
        self._sender.join()
        self._connection.close()

    def _send_all(self) -> None:
        with contextlib.suppress(OSError):  # the process has ended
            while (batch := self._outbox.get()) is not None:
                self._connection.send(batch)


class _Failed(NamedTuple):
    """A failed batch: the error and its traceback."""

    error: Exception
    trace: str


class _ReaderTraceback(Exception):
    """The traceback of an error in a reader process."""


def _read_batches(
    theirs: Connection, summarize: Callable[[list[tuple[str, bytes]]], list[FileSummary]]
) -> None:
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            batch = theirs.recv()
            try:
                found: object = summarize(batch)
            except Exception as error:  # noqa: BLE001 - raised again in the parent
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
