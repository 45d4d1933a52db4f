"""Source code: which language it is in, by its file's name or its first line."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_ENDINGS = {
    "bash": ".bash .sh .zsh",
    "batch": ".bat .cmd",
    "c": ".c .h",
    "clojure": ".clj .cljs",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "csharp": ".cs",
    "css": ".css .less .scss",
    "dart": ".dart",
    "elixir": ".ex .exs",
    "erlang": ".erl .hrl",
    "fsharp": ".fs .fsx",
    "go": ".go",
    "graphql": ".graphql",
    "groovy": ".gradle .groovy",
    "haskell": ".hs",
    "hcl": ".hcl .tf",
    "ini": ".cfg .conf .ini .properties",
    "java": ".java",
    "javascript": ".cjs .js .jsx .mjs",
    "json": ".ipynb .json .json5 .jsonc .jsonl .ndjson",
    "julia": ".jl",
    "kotlin": ".kt .kts",
    "lua": ".lua",
    "objective-c": ".m .mm",
    "ocaml": ".ml .mli",
    "perl": ".pl .pm",
    "php": ".php",
    "powershell": ".ps1 .psm1",
    "protobuf": ".proto",
    "python": ".py .pyi .pyw",
    "r": ".r",
    "ruby": ".rake .rb",
    "rust": ".rs",
    "scala": ".sc .scala",
    "sql": ".sql",
    "svelte": ".svelte",
    "swift": ".swift",
    "toml": ".toml",
    "typescript": ".cts .mts .ts .tsx",
    "vue": ".vue",
    "xml": ".plist .svg .wsdl .xml .xsd .xsl",
    "yaml": ".yaml .yml",
    "zig": ".zig",
}
_BY_ENDING = {ending: language for language, all_ in _ENDINGS.items() for ending in all_.split()}
_BY_NAME = {
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "makefile": "make",
    "gnumakefile": "make",
    "cmakelists.txt": "cmake",
    "jenkinsfile": "groovy",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "go.mod": "go",
}
_FIRST_LINE = re.compile(rb"#![^\n]*?\b(bash|sh|zsh|python|node|perl|ruby|php|lua)[0-9.]*\b")
_INTERPRETERS = {"sh": "bash", "zsh": "bash", "node": "javascript"}


def language_by_name(name: str) -> str | None:
    """Return the language that a file's name says it is in; None where it says none."""
    path = PurePosixPath(name.replace("\\", "/").lower())
    return _BY_NAME.get(path.name) or _BY_ENDING.get(path.suffix)


def language_by_first_line(beginning: bytes) -> str | None:
    """Return the language of the interpreter that a script asks for."""
    match = _FIRST_LINE.match(beginning)
    if match is None:
        return None
    interpreter = match[1].decode()
    return _INTERPRETERS.get(interpreter, interpreter)
