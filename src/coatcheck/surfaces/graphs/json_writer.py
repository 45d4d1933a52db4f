"""Write a graph as JSON, a few hundred entries at a time: memory may not hold a second copy."""

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
    """Write a graph, with its domains if there are any."""
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
    # Half a surrogate pair, from a name that was not UTF-8, cannot be encoded.
    return _encode(value).encode("utf-8", "replace")
