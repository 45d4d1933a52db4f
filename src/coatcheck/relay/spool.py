"""The body of an answer while it comes: in memory as long as it is small, then in a file.

The file has no name, so that nothing is left of it whatever becomes of the process. Only a complete
body is handed to the blob store: a stream may take an hour, and would hold a thread there.
"""

from __future__ import annotations

import tempfile
from typing import IO

from coatcheck.relay.call import INLINE_BODY


class Spool:
    """A body that grows."""

    def __init__(self, inline: int = INLINE_BODY) -> None:
        self._inline = inline
        self._pieces: list[bytes] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Add what came."""
        self.size += len(piece)
        if self._file is not None:
            self._file.write(piece)
            return
        self._pieces.append(piece)
        if self.size > self._inline:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the spool
            self._file.writelines(self._pieces)
            self._pieces.clear()

    @property
    def content(self) -> bytes | None:
        """All of it where it is small, else None."""
        return b"".join(self._pieces) if self._file is None else None

    def from_start(self) -> IO[bytes]:
        """Return the file of a body that is not small, to be read."""
        assert self._file is not None, "a small body has no file"
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Forget it."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
