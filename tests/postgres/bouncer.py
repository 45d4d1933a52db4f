"""PgBouncer in transaction mode before the test's server; installed where that can be done."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
import pytest

from tests.debian import program_of

PORT = 6432  # only the name of a socket: no network port is opened
PATIENCE_S = 30.0
NOBODY = 65534
CONFIGURATION = """
[databases]
{database} = {target}
[pgbouncer]
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
listen_addr =
unix_socket_dir = {folder}
listen_port = {port}
auth_type = any
ignore_startup_parameters = extra_float_digits
"""


def find_program() -> str:
    """Return where PgBouncer is; try to install it; skip the test where that cannot be done."""
    found = program_of("pgbouncer", "pgbouncer")
    return found or pytest.skip("there is no pgbouncer here: install Debian's")


class Bouncer:
    """A PgBouncer for as long as a block lasts; `dsn` is the address that leads through it."""

    def __init__(self, program: str, dsn: str) -> None:
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="bouncer-")
        folder = Path(self._folder.name)
        self._settings, self._log = folder / "pgbouncer.ini", folder / "log"
        address = urlsplit(dsn)
        host = parse_qs(address.query).get("host", [address.hostname or "localhost"])[0]
        database = address.path.removeprefix("/") or "postgres"
        user = address.username or "postgres"
        target = f"host={host} port={address.port or 5432} user={user}"
        if address.password:
            target += f" password={unquote(address.password)}"
        self._settings.write_text(
            CONFIGURATION.format(database=database, target=target, folder=folder, port=PORT)
        )
        self.dsn = f"postgresql://{user}@/{database}?host={folder}&port={PORT}"
        # It refuses to be root, and must be able to reach the server's socket.
        self._owner: int | None = None
        if os.geteuid() == 0:
            self._owner = Path(host).stat().st_uid if host.startswith("/") else NOBODY
            for path in (folder, self._settings):
                os.chown(path, self._owner, -1)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self._folder.cleanup()

    def restart(self) -> None:
        """Stop it, which cuts every connection, and start it again."""
        self._stop()
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(self._settings)], user=self._owner, stdout=log, stderr=log
            )
        until = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.02)

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True
