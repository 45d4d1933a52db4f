"""Which language a file is written in, and its parser."""

from __future__ import annotations

import importlib
import warnings
from functools import cache

from tree_sitter import Language, Parser

_BY_ENDING = {
    "py": "python", "pyi": "python", "pyw": "python",
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx",
    "java": "java", "go": "go", "rs": "rust",
    "c": "c", "h": "c",
    "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hpp": "cpp", "hh": "cpp", "hxx": "cpp",
    "cs": "csharp", "rb": "ruby", "rake": "ruby", "php": "php",
}  # fmt: skip
# (module, function that returns the grammar)
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


# Some grammars take time in the square of what is unusual; nothing that people write takes this.
LONGEST_PARSE_S = 20


def language_of(path: str) -> str | None:
    """Return a file's language by its ending, None if it is none of ours."""
    name = path.rpartition("/")[2]
    _, dot, ending = name.rpartition(".")
    return _BY_ENDING.get(ending.lower()) if dot else None


@cache
def parser_of(language: str) -> Parser:
    """Return this process's parser for a language."""
    module, function = _GRAMMARS[language]
    parser = Parser(Language(getattr(importlib.import_module(module), function)()))
    set_longest_parse(parser, LONGEST_PARSE_S)
    return parser


def set_longest_parse(parser: Parser, seconds: float) -> None:
    """Let a parser give up on a file after this long."""
    with warnings.catch_warnings():
        # What is to come instead ends the process when it is used (0.25.2).
        warnings.simplefilter("ignore", DeprecationWarning)
        setattr(parser, "timeout_micros", round(seconds * 1_000_000))  # noqa: B010 - typed so
