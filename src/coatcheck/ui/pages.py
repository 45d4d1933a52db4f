"""The endpoints that serve the files of the cockpit.

The files are read once. The path of every file but the page itself contains a hash of all files, so
browsers cache them indefinitely and never mix two releases. The page is revalidated on each load.
It may load and run only files of this server, and nothing inline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.http.endpoint import Access, Endpoint, EndpointResponse, Handler

PATH = "/ui"
_PAGE = "index.html"
# The third-party file whose absence means that the cockpit was not built.
_REQUIRED = "vendor/preact.js"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# Images that jobs created are shown from memory (blob:), where an SVG cannot run scripts.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
_REVALIDATED = {"Cache-Control": "no-cache"}


class _File(NamedTuple):
    content: bytes
    media_type: str


class Cockpit:
    """The files, as they were when the process started."""

    def __init__(self, root: Traversable | None = None) -> None:
        found = dict(_read(files("coatcheck.ui") / "static" if root is None else root))
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(found):
            digest.update(name.encode() + b"\0" + found[name].content)
        self.release = digest.hexdigest()
        page = found.pop(_PAGE).content.replace(b"{release}", self.release.encode())
        self._page = page if _REQUIRED in found else None
        self._files = found

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints. All are public: the files contain no data."""
        page = {200: EndpointResponse("The page.", {"text/html": {"type": "string"}})}
        file = {200: EndpointResponse("A file.", {"*/*": {"type": "string"}})}
        return (
            self._endpoint(PATH, self.get_page, "cockpit", page),
            self._endpoint(f"{PATH}/", self.get_page, "cockpitToo", page),
            self._endpoint(f"{PATH}/{{release}}/{{path:path}}", self.get_file, "cockpitFile", file),
        )

    async def get_page(self, _request: Request) -> Response:
        """Return the page."""
        if self._page is None:
            raise HTTPException(404, "the cockpit is not built: run make setup")
        return Response(self._page, 200, _HEADERS | _REVALIDATED, _TYPES["html"])

    async def get_file(self, request: Request) -> Response:
        """Return a file of this release."""
        found = self._files.get(request.path_params["path"])
        if found is None or request.path_params["release"] != self.release:
            raise HTTPException(404, "there is no such file")
        return Response(found.content, 200, _HEADERS | _IMMUTABLE, found.media_type)

    @staticmethod
    def _endpoint(
        path: str, handler: Handler, name: str, responses: dict[int, EndpointResponse]
    ) -> Endpoint:
        return Endpoint(
            "GET",
            path,
            handler,
            name,
            "The cockpit",
            "operating",
            responses,
            hidden=True,
            access=Access.PUBLIC,
        )


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, _File]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        elif (ending := entry.name.rpartition(".")[2]) in _TYPES:
            yield f"{prefix}{entry.name}", _File(entry.read_bytes(), _TYPES[ending])
