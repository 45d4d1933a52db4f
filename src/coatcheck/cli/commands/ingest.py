"""`coatcheck ingest`: files become documents of a collection."""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, ApiError, job_path
from coatcheck.cli.files.walk import walk
from coatcheck.cli.options import SERVER_OPTIONS, address_hint, label_pairs, options
from coatcheck.cli.output.terminal import complain, err, plain, say
from coatcheck.client.client import Client
from coatcheck.errors import CoatcheckError, ServerError, Unauthorized

KIND = "ingest.document"
# Documents that are under way at once: enough to keep a server busy.
UNDER_WAY = 8
POLL_S = 1.0
LONG_POLL_S = 25.0
# What is taken of a folder; a file that is named is sent whatever it is called.
ENDINGS = frozenset(
    (
        *(".pdf", ".docx", ".pptx", ".xlsx", ".html", ".htm", ".xhtml", ".eml", ".txt", ".text"),
        *(".md", ".markdown", ".rst", ".adoc", ".org", ".tex", ".log", ".csv", ".tsv"),
        *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".go"),
        *(".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".swift", ".scala"),
        *(".sh", ".bash", ".sql", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".xml"),
    )
)


class File(NamedTuple):
    """A file, and what its document is called."""

    path: Path
    name: str


@dataclass
class Tally:
    """What became of the files."""

    new: int = 0
    unchanged: int = 0
    passages: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)

    def count(self, name: str, job: dict[str, Any]) -> str:
        """Note how a document's job has ended, and return that in a word or two."""
        if job["state"] == "succeeded":
            result = job["result"]
            if result["unchanged"]:
                self.unchanged += 1
                return "unchanged"
            self.new += 1
            self.passages += result["passages"]
            unread = f", {len(result['problems'])} problems" if result["problems"] else ""
            return f"{result['passages']:,} passages{unread}"
        why = job["error"]["message"] if job["error"] else job["state"]
        self.failures.append((name, why))
        return str(job["state"])


@click.command()
@click.argument(
    "paths",
    metavar="PATHS...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@click.option("--collection", default="default", metavar="NAME", help="Where they go (default).")
@click.option(
    "--metadata",
    multiple=True,
    metavar="NAME=VALUE",
    help="Said of each of them, for filters of a search; may be given several times.",
)
@options(*SERVER_OPTIONS)
def ingest(
    paths: Sequence[Path],
    collection: str,
    metadata: Sequence[str],
    url: str,
    api_key: str | None,
) -> None:
    """Bring files into a collection, where `coatcheck search` finds what they say.

    Folders are walked, without what git would ignore and what is no document. A file that is there
    already as it is costs nothing; one that has changed replaces what is there, once it is whole.
    Ctrl-C stops sending: what was sent goes on. `coatcheck serve` without an app is a server that
    takes documents.

    \b
    Examples:
        coatcheck ingest docs README.md --collection docs
        coatcheck ingest README.md --metadata year=2026
    """
    said = dict(label_pairs(metadata))
    left_out: Counter[str] = Counter()
    files = list(dict.fromkeys(_files(paths, left_out)))
    if left_out:
        say("left out: " + ", ".join(f"{count:,} {why}" for why, count in left_out.most_common()))
    if not files:
        complain("there is nothing to bring in")
        sys.exit(exit_codes.USAGE)
    with Api(url, api_key) as api, Client(url, api_key) as client:
        if not any(known["name"] == KIND for known in api.kinds()):
            complain(f"the server at {api.shown_url} takes no documents: serve it without an app")
            sys.exit(exit_codes.FAILED)
        sys.exit(_Sending(api, client, collection, said).run(files))


class _Sending:
    """Sends files, a few at a time, and follows their jobs."""

    def __init__(self, api: Api, client: Client, collection: str, metadata: dict[str, str]) -> None:
        self._api = api
        self._client = client
        self._collection = collection
        self._metadata = metadata
        self._tally = Tally()
        self._in_progress: deque[tuple[str, str]] = deque()  # names and ids of jobs
        self._on_screen = err().is_terminal

    def run(self, files: Sequence[File]) -> int:
        """Send all of them; return the exit code."""
        waiting = deque(files)
        try:
            while waiting or self._in_progress:
                while waiting and len(self._in_progress) < UNDER_WAY:
                    self._send(waiting.popleft())
                if self._in_progress:
                    self._follow_oldest(len(files))
        except KeyboardInterrupt:
            hint = address_hint(self._api.url)
            say(f"\nWhat was sent goes on: coatcheck jobs list --kind {KIND}{hint}")
            return exit_codes.INTERRUPTED
        return self._tell(len(files))

    def _send(self, file: File) -> None:
        try:
            upload = self._client.upload(file.path)
            asked = {
                "collection": self._collection,
                "name": file.name,
                "file": upload.model_dump(),
                "metadata": self._metadata,
            }
            labels = {"title": file.name[:255], "collection": self._collection}
            job = self._api.submit(KIND, asked, labels=labels)
        except OSError as error:
            self._tally.failures.append((file.name, error.strerror or "it cannot be read"))
        except ApiError as error:
            if error.exit_code in (exit_codes.UNREACHABLE, exit_codes.NOT_ALLOWED):
                raise
            self._tally.failures.append((file.name, str(error)))
        except (Unauthorized, ServerError):
            raise  # it is not about this file
        except CoatcheckError as error:
            self._tally.failures.append((file.name, str(error)))
        else:
            self._in_progress.append((file.name, job.id))

    def _follow_oldest(self, files: int) -> None:
        name, job_id = self._in_progress[0]
        job = self._api.read_job(job_id, wait=POLL_S if self._on_screen else LONG_POLL_S)
        if job["finished_at"] is None:
            self._show(name, job_id, files)
            return
        self._in_progress.popleft()
        word = self._tally.count(name, job)
        self._clear()
        say(f"  {name}  {word}")

    def _show(self, name: str, job_id: str, files: int) -> None:
        """Say on one line how far it is, where somebody looks on."""
        if not self._on_screen:
            return
        card = self._api.read(f"{job_path(job_id)}/card", "title")
        percent = "" if card["percent"] is None else f" {card['percent']}%"
        done = self._tally.new + self._tally.unchanged + len(self._tally.failures)
        line = f"{done} of {files}  {name}{percent}  {card['message'] or card['state']}"
        console = err()
        console.print(f"\r{plain(line)[: console.width - 1]}\x1b[K", end="", soft_wrap=True)

    def _clear(self) -> None:
        if self._on_screen:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _tell(self, files: int) -> int:
        tally = self._tally
        parts = [f"{tally.new:,} brought in ({tally.passages:,} passages)"]
        parts += [f"{tally.unchanged:,} unchanged"] if tally.unchanged else []
        parts += [f"{len(tally.failures):,} failed"] if tally.failures else []
        say(f"{files:,} documents to {self._collection!r}: {', '.join(parts)}")
        for name, why in tally.failures:
            complain(f"{name}: {why}")
        return exit_codes.FAILED if tally.failures else exit_codes.OK


def _files(paths: Sequence[Path], left_out: Counter[str]) -> Iterator[File]:
    for path in paths:
        if not path.is_dir():
            yield File(path, _name_of(path))
            continue
        above = _name_of(path)
        for found, inside in walk(path, left_out, _why_not):
            yield File(found, f"{above}/{inside}" if above else inside)


def _name_of(path: Path) -> str:
    """Return what a path is called: as it was given, where that leads down from here."""
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or ".." in parts:
        return path.resolve().name
    return "/".join(parts)


def _why_not(entry: os.DirEntry[str]) -> str | None:
    if Path(entry.name).suffix.lower() not in ENDINGS:
        return "no documents"
    return None if entry.name.isprintable() else "of a name that cannot be shown"
