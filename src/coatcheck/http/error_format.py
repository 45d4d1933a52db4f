"""In whose words a request is refused: by its path.

The canonical API writes problem documents. A surface writes what its document says, on the paths
below the prefixes that it has claimed, whoever refuses: the door, the router, or its own call.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.http.errors import ErrorResponse, Shape, as_problem, refusal_of


class ErrorFormats:
    """Which shape holds on which paths."""

    def __init__(self, by_prefix: Mapping[str, Shape]) -> None:
        # The longest first: the one that fits best decides.
        self._by_prefix = sorted(by_prefix.items(), key=lambda item: -len(item[0]))

    def refuse(self, refusal: ErrorResponse, path: str) -> Response:
        """Write a refusal as whoever owns the path does."""
        for prefix, shape in self._by_prefix:
            if path == prefix or path.startswith(f"{prefix}/"):
                return shape(refusal, path)
        return as_problem(refusal, path)

    def answer(self, error: Exception, path: str) -> Response:
        """Turn any exception into its answer."""
        return self.refuse(refusal_of(error), path)


async def answer_error(request: Request, error: Exception) -> Response:
    """Turn any exception of a route into its answer."""
    shapes: ErrorFormats = request.app.state.shapes
    return shapes.answer(error, request.scope["path"])
