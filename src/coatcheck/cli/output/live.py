"""The live view of a job on a terminal: where it stands, a bar, what it says of itself."""

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

from coatcheck.cli.output.tables import cut
from coatcheck.cli.output.terminal import err, plain

# Below this a terminal has room for the essential only.
NARROW = 60
LONGEST_STANDING, SHORT_STANDING = 30, 10


class LiveView:
    """One line on stderr that changes; nothing at all where stderr is no terminal."""

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
        self._standing = ""
        self._step = ""
        self._task = self._progress.add_task("", total=None, standing="", message="")

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
        """Show a job as it stands."""
        standing = job["state"]
        if job["state"] == "running" and job["phase"]:
            standing = job["phase"]
        if job["attempt"] > 1:
            standing += f" (attempt {job['attempt']})"
        progress = job["progress"] or {"done": 0, "total": None, "message": ""}
        message = progress["message"] or self._step
        if job["state"] in ("queued", "waiting") and job.get("explain"):
            message = job["explain"][0]["message"]
        done, total = progress["done"], progress["total"]
        if job["state"] == "succeeded":
            done, total = 1, 1
        self._standing = cut(plain(standing), LONGEST_STANDING if self._is_wide else SHORT_STANDING)
        self._progress.update(self._task, standing=self._standing, completed=done)
        # Not by `update`, which takes None for "as it was".
        self._progress.tasks[0].total = total
        self.tell(message)

    def tell(self, message: str) -> None:
        """Show what a job says of itself, in what is left of the line."""
        others = cell_len(self._standing) + self._bar_width + len(" 100%  ")
        if self._is_wide:
            others += len(" 0:00:00 ")
        left = max(1, self._progress.console.width - others - 1)
        self._progress.update(self._task, message=cut(plain(message), left))

    def step(self, words: str) -> None:
        """Remember the step that a job has come to: shown where it says nothing else."""
        self._step = words
        self.log(words)

    def log(self, message: str) -> None:
        """Print a line of the job's own log above the bar."""
        if self.shown:
            self._progress.console.print(Text(plain(message), style="dim"))


def _columns(bar_width: int, *, with_time: bool) -> list[ProgressColumn]:
    columns: list[ProgressColumn] = [
        TextColumn("{task.fields[standing]}", markup=False),
        BarColumn(bar_width=bar_width, table_column=Column(min_width=bar_width)),
        TaskProgressColumn(markup=False, text_format="{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[message]}", markup=False),
    ]
    return [*columns, TimeElapsedColumn()] if with_time else columns
