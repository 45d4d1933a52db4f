"""A clock that a test moves."""

from __future__ import annotations


class HandClock:
    """Time stands still unless a test moves it."""

    def __init__(self, start: int) -> None:
        self.milliseconds = start

    def now(self) -> int:
        return self.milliseconds

    def monotonic(self) -> float:
        return self.milliseconds / 1000
