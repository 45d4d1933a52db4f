"""A graph as JSON, written a few hundred entries at a time: it may be larger than what it is made
from has room for twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import IO, Any, Protocol

from coatcheck.codegraph import Graph
from coatcheck.surfaces.graphs.domains import Domain

_AT_ONCE = 500

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class _Shown(Protocol):
    def as_json(self) -> dict[str, Any]: ...


def write_graph(graph: Graph, domains: Sequence[Domain] | None, file: IO[bytes]) -> None:
    """Write a graph, with its domains where they were asked for."""
    file.write(b'{"nodes":[')
    _write_all(graph.nodes, file)
    file.write(b'],"edges":[')
    _write_all(graph.edges, file)
    if domains is not None:
        file.write(b'],"domains":[')
        _write_all(domains, file)
    file.write(b'],"stats":' + _bytes(graph.stats.as_json()) + b"}")


def _write_all(items: Iterable[_Shown], file: IO[bytes]) -> None:
    left, between = iter(items), b""
    while some := [item.as_json() for item in islice(left, _AT_ONCE)]:
        file.write(between + _bytes(some)[1:-1])
        between = b","


def _bytes(value: Any) -> bytes:
    # Half a surrogate pair, from a name that was no UTF-8, is no text to anybody else.
    return _encode(value).encode("utf-8", "replace")
