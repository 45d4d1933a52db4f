"""Names, keys and paths by number, so that what is kept of the code is numbers."""

from __future__ import annotations

from typing import Any


class Words(dict[Any, int]):
    """Gives each word its number, when it is first asked for; `at[number]` is the word."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[Any] = []

    def __missing__(self, word: int | str | None) -> int:
        number = self[word] = len(self.at)
        self.at.append(word)
        return number
