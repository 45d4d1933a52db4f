"""A real `coatcheck serve`, whose processes can be found and killed."""

from __future__ import annotations

import json
import os
import select
import signal
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from coatcheck import Client
from tests.cli.processes import PATIENCE_S, running

from . import app
from .place import SWEEP_S, Place

# A busy machine loses nobody within these. On SQLite nobody waits for them: a process that is dead
# is seen at once.
UNHURRIED_LEASES_S = {"sqlite": 30.0, "postgres": 5.0}


class Server:
    """`coatcheck serve` with the app of these tests, on the store of a place."""

    def __init__(
        self, place: Place, *arguments: str, key: str | None = None, **settings: str
    ) -> None:
        self._key = key
        self.place = place
        self._arguments = arguments
        self._settings = {
            "FAULT_FOLDER": str(place.folder),
            "COATCHECK_DATABASE": place.database,
            "COATCHECK_SCHEMA": place.schema,
            "COATCHECK_LEASE_S": str(UNHURRIED_LEASES_S[place.name]),
            "COATCHECK_SWEEP_S": str(SWEEP_S),
            "COATCHECK_DRAIN_S": "5",
            "COATCHECK_LOG_FORMAT": "json",
            **{f"COATCHECK_{name.upper()}": value for name, value in settings.items()},
        }

    def __enter__(self) -> Self:
        arguments = ("serve", f"{app.__file__}:app", "--port", "0", *self._arguments)
        with ExitStack() as stack:
            self._running = stack.enter_context(
                running(*arguments, folder=self.place.folder, **self._settings)
            )
            self.process = self._running.process
            self.client = stack.enter_context(Client(self._running.url(), api_key=self._key))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def wait_for_log(self, message: str, **fields: object) -> dict[str, Any]:
        """Return the next log line with this message and these fields."""

        def matches(line: str) -> bool:
            try:
                said = json.loads(line)
            except ValueError:
                return False
            return bool(said["message"] == message and fields.items() <= said.items())

        found: dict[str, Any] = json.loads(self._running.stderr.next_with(matches))
        return found

    def child(self, name: str) -> int:
        """Return the pid of a child that was just (re)started."""
        return int(self.wait_for_log("process started", child=name)["child_pid"])

    def open_gate(self) -> None:
        """Let the held jobs go on."""
        (self.place.folder / "gate").touch()

    def terminate(self) -> int:
        """Stop it the polite way and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def wait_until_gone(*pids: int) -> None:
    """Wait until processes have ended, also those that are not our children."""
    for pid in pids:
        try:
            ended = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            readable, _, _ = select.select([ended], [], [], PATIENCE_S)
        finally:
            os.close(ended)
        assert readable, f"still there: {pid}"
