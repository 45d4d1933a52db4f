"""Generate the synchronous client from the asynchronous one: `make unasync`.

The token stream of each source module is copied without `async` and `await`, with names replaced.
Docstrings keep their text except for a few phrases. ruff sorts the imports and formats the result.
"""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "coatcheck" / "client"
MODULES = {"async_client.py": "client.py", "async_webhooks.py": "webhooks.py"}
NAMES = {
    "AsyncClient": "Client",
    "AsyncDriver": "Driver",
    "AsyncGenerator": "Generator",
    "AsyncJobHandle": "JobHandle",
    "AsyncWebhookClient": "WebhookClient",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "async_driver": "driver",
    "async_webhooks": "webhooks",
}
PHRASES = {
    "AsyncClient": "Client",
    "AsyncWebhookClient": "WebhookClient",
    "`client.py` is generated from this module": "Generated from async_client.py by `make unasync`",
    "`webhooks.py` is generated from this module": "Generated from async_webhooks.py by "
    "`make unasync`",
    "the tasks of one event loop": "any number of threads",
    "contextlib.aclosing": "contextlib.closing",
}


def generate(source: Path) -> str:
    """Return the synchronous version of a module."""
    text = _without_async(source.read_text(encoding="utf-8"))
    for arguments in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(source), "-"]
        run = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)  # noqa: S603
        text = run.stdout
    return text


def _without_async(text: str) -> str:
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    # From the end, so that earlier positions stay valid.
    for token, following in reversed(list(itertools.pairwise(tokens))):
        (first, start), (last, end) = token.start, token.end
        new = token.string
        if token.type == tokenize.NAME and new in ("async", "await"):
            new, end = "", following.start[1]
        elif token.type == tokenize.NAME:
            new = NAMES.get(new, new)
        elif token.type == tokenize.STRING:
            for old_phrase, new_phrase in PHRASES.items():
                new = new.replace(old_phrase, new_phrase)
        if new != token.string:
            lines[first - 1 : last] = [lines[first - 1][:start] + new + lines[last - 1][end:]]
    return "".join(lines)


def main() -> None:
    """Write every generated module."""
    for source, target in MODULES.items():
        (PACKAGE / target).write_text(generate(PACKAGE / source), encoding="utf-8")


if __name__ == "__main__":
    main()
