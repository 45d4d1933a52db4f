"""The live view of a job on a terminal: state, progress bar, message."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.cells import cell_len
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from coatcheck.cli.output.tables import truncate
from coatcheck.cli.output.terminal import err, plain

# A narrower terminal shows no elapsed time and a short state.
NARROW = 60
MAX_STATUS, NARROW_STATUS = 30, 10


class LiveView:
    """One line on stderr that is updated in place; nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        console = err()
        self.shown = console.is_terminal
        self._is_wide = console.width >= NARROW
        self._bar_width = min(30, console.width // 6)
        self._progress = Progress(
            *_columns(self._bar_width, with_time=self._is_wide),
            console=console,
            disable=not self.shown,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._status = ""
        self._step = ""
        self._task = self._progress.add_task("", total=None, status="", message="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, job: dict[str, Any]) -> None:
        """Show a job's current state."""
        status = job["state"]
        if job["state"] == "running" and job["phase"]:
            status = job["phase"]
        if job["attempt"] > 1:
            status += f" (attempt {job['attempt']})"
        progress = job["progress"] or {"done": 0, "total": None, "message": ""}
        message = progress["message"] or self._step
        if job["state"] in ("queued", "waiting") and job.get("explain"):
            message = job["explain"][0]["message"]
        done, total = progress["done"], progress["total"]
        if job["state"] == "succeeded":
            done, total = 1, 1
        self._status = truncate(plain(status), MAX_STATUS if self._is_wide else NARROW_STATUS)
        self._progress.update(self._task, status=self._status, completed=done)
        # Not with `update`, which ignores None.
        self._progress.tasks[0].total = total
        self.show_message(message)

    def show_message(self, message: str) -> None:
        """Show a message in the rest of the line."""
        others = cell_len(self._status) + self._bar_width + len(" 100%  ")
        if self._is_wide:
            others += len(" 0:00:00 ")
        left = max(1, self._progress.console.width - others - 1)
        self._progress.update(self._task, message=truncate(plain(message), left))

    def show_step(self, description: str) -> None:
        """Log a step, and show it as the message of a job that has none."""
        self._step = description
        self.log(description)

    def log(self, message: str) -> None:
        """Print a line of the job's own log above the bar."""
        if self.shown:
            self._progress.console.print(Text(plain(message), style="dim"))


def _columns(bar_width: int, *, with_time: bool) -> list[ProgressColumn]:
    columns: list[ProgressColumn] = [
        TextColumn("{task.fields[status]}", markup=False),
        BarColumn(bar_width=bar_width, table_column=Column(min_width=bar_width)),
        TaskProgressColumn(markup=False, text_format="{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[message]}", markup=False),
    ]
    return [*columns, TimeElapsedColumn()] if with_time else columns
