"""Languages by file extension, and their parsers."""

from __future__ import annotations

import importlib
import time
import warnings
from functools import cache

from tree_sitter import Language, Parser, Tree

_BY_ENDING = {
    "py": "python", "pyi": "python", "pyw": "python",
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx",
    "java": "java", "go": "go", "rs": "rust",
    "c": "c", "h": "c",
    "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hpp": "cpp", "hh": "cpp", "hxx": "cpp",
    "cs": "csharp", "rb": "ruby", "rake": "ruby", "php": "php",
}  # fmt: skip
# The module, and its function that returns the grammar.
_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "java": ("tree_sitter_java", "language"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
}


# Some grammars take quadratic time and gigabytes for unusual sources. A parser gives up on a file
# after a time that depends on its size. Code written by people takes a thousandth of that.
MIN_LIMIT_S, MAX_LIMIT_S = 1, 20
_LIMIT_S_PER_BYTE = 20e-6
# The files of a batch share a budget, so that an archive of slow files takes time proportional to
# its size. Each file gets a minimum even if the budget is used up.
_SHARED_S = 5.0
_MIN_FILE_S = 0.1


def language_of(path: str) -> str | None:
    """Return a file's language by its extension, or None if it is not supported."""
    name = path.rpartition("/")[2]
    _, dot, ending = name.rpartition(".")
    return _BY_ENDING.get(ending.lower()) if dot else None


@cache
def parser_of(language: str) -> Parser:
    """Return this process's parser for a language."""
    module, function = _GRAMMARS[language]
    return Parser(Language(getattr(importlib.import_module(module), function)()))


def parse_limit(size: int) -> int:
    """Return the time limit in seconds for parsing a file of this size."""
    return min(MAX_LIMIT_S, round(MIN_LIMIT_S + size * _LIMIT_S_PER_BYTE))


class ParseBudget:
    """The parse time that the files of a batch share."""

    def __init__(self, size: int) -> None:
        self._left = _SHARED_S + size * _LIMIT_S_PER_BYTE

    def parse(self, language: str, source: bytes) -> Tree | None:
        """Parse a source; return None if it exceeds its time."""
        parser = parser_of(language)
        _set_limit(parser, max(_MIN_FILE_S, min(self._left, parse_limit(len(source)))))
        started = time.monotonic()
        try:
            return parser.parse(source)
        except ValueError:
            parser.reset()
            return None
        finally:
            self._left -= time.monotonic() - started


def _set_limit(parser: Parser, seconds: float) -> None:
    with warnings.catch_warnings():
        # The replacement of this setting crashes the process (tree-sitter 0.25.2).
        warnings.simplefilter("ignore", DeprecationWarning)
        setattr(parser, "timeout_micros", round(seconds * 1_000_000))  # noqa: B010 - typed so
