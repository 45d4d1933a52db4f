"""`coatcheck ingest`: add files to a collection of documents."""

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
from coatcheck.cli.options import SERVER_OPTIONS, address_hint, label_dict, options
from coatcheck.cli.output.terminal import complain, err, plain, say
from coatcheck.client.client import Client
from coatcheck.errors import CoatcheckError, ServerError, Unauthorized

KIND = "ingest.document"
# Jobs in progress at once: enough to keep a server busy.
MOST_IN_PROGRESS = 8
POLL_S = 1.0
LONG_POLL_S = 25.0
# The suffixes accepted in a folder; a file that is named is always sent.
SUFFIXES = frozenset(
    (
        *(".pdf", ".docx", ".pptx", ".xlsx", ".html", ".htm", ".xhtml", ".eml", ".txt", ".text"),
        *(".md", ".markdown", ".rst", ".adoc", ".org", ".tex", ".log", ".csv", ".tsv"),
        *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".go"),
        *(".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".swift", ".scala"),
        *(".sh", ".bash", ".sql", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".xml"),
    )
)


class File(NamedTuple):
    """A file and the name of its document."""

    path: Path
    name: str


@dataclass
class Tally:
    """The outcomes of all files."""

    new: int = 0
    unchanged: int = 0
    passages: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)

    def count(self, name: str, job: dict[str, Any]) -> str:
        """Count a finished job and return a short description of its outcome."""
        if job["state"] == "succeeded":
            result = job["result"]
            if result["unchanged"]:
                self.unchanged += 1
                return "unchanged"
            self.new += 1
            self.passages += result["passages"]
            problems = f", {len(result['problems'])} problems" if result["problems"] else ""
            return f"{result['passages']:,} passages{problems}"
        reason = job["error"]["message"] if job["error"] else job["state"]
        self.failures.append((name, reason))
        return str(job["state"])


@click.command()
@click.argument(
    "paths",
    metavar="PATHS...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@click.option("--collection", default="default", metavar="NAME", help="The collection (default).")
@click.option(
    "--metadata",
    multiple=True,
    metavar="NAME=VALUE",
    help="Metadata of every document, for search filters; repeatable.",
)
@options(*SERVER_OPTIONS)
def ingest(
    paths: Sequence[Path],
    collection: str,
    metadata: Sequence[str],
    url: str,
    api_key: str | None,
) -> None:
    """Add files to a collection, for `coatcheck search`.

    Folders are walked; files that git ignores and files that are not documents are skipped. An
    unchanged file is not processed again; a changed file replaces the old version once it is
    complete. Ctrl-C stops sending; documents already sent continue. Needs a server with the ingest
    surface: `coatcheck serve` without an app.

    \b
    Examples:
        coatcheck ingest docs README.md --collection docs
        coatcheck ingest README.md --metadata year=2026
    """
    pairs = label_dict(metadata)
    skipped: Counter[str] = Counter()
    files = list(dict.fromkeys(_files(paths, skipped)))
    if skipped:
        say("skipped: " + ", ".join(f"{count:,} {why}" for why, count in skipped.most_common()))
    if not files:
        complain("there are no documents to ingest")
        sys.exit(exit_codes.USAGE)
    with Api(url, api_key) as api, Client(url, api_key) as client:
        if not any(known["name"] == KIND for known in api.kinds()):
            complain(
                f"the server at {api.shown_url} has no ingest surface; serve it without an app"
            )
            sys.exit(exit_codes.FAILED)
        sys.exit(_Sender(api, client, collection, pairs).run(files))


class _Sender:
    """Sends files, a few at a time, and follows their jobs."""

    def __init__(self, api: Api, client: Client, collection: str, metadata: dict[str, str]) -> None:
        self._api = api
        self._client = client
        self._collection = collection
        self._metadata = metadata
        self._tally = Tally()
        self._in_progress: deque[tuple[str, str]] = deque()  # names and ids of jobs
        self._is_terminal = err().is_terminal

    def run(self, files: Sequence[File]) -> int:
        """Send all files; return the exit code."""
        waiting = deque(files)
        try:
            while waiting or self._in_progress:
                while waiting and len(self._in_progress) < MOST_IN_PROGRESS:
                    self._send(waiting.popleft())
                if self._in_progress:
                    self._follow_oldest(len(files))
        except KeyboardInterrupt:
            hint = address_hint(self._api.url)
            say(f"\nDocuments already sent continue: coatcheck jobs list --kind {KIND}{hint}")
            return exit_codes.INTERRUPTED
        return self._summarize(len(files))

    def _send(self, file: File) -> None:
        try:
            upload = self._client.upload(file.path)
            document = {
                "collection": self._collection,
                "name": file.name,
                "file": upload.model_dump(),
                "metadata": self._metadata,
            }
            labels = {"title": file.name[:255], "collection": self._collection}
            job = self._api.submit(KIND, document, labels=labels)
        except OSError as error:
            self._tally.failures.append((file.name, error.strerror or "the file cannot be read"))
        except ApiError as error:
            if error.exit_code in (exit_codes.UNREACHABLE, exit_codes.NOT_ALLOWED):
                raise
            self._tally.failures.append((file.name, str(error)))
        except (Unauthorized, ServerError):
            raise  # not specific to this file
        except CoatcheckError as error:
            self._tally.failures.append((file.name, str(error)))
        else:
            self._in_progress.append((file.name, job.id))

    def _follow_oldest(self, files: int) -> None:
        name, job_id = self._in_progress[0]
        job = self._api.read_job(job_id, wait=POLL_S if self._is_terminal else LONG_POLL_S)
        if job["finished_at"] is None:
            self._show(name, job_id, files)
            return
        self._in_progress.popleft()
        outcome = self._tally.count(name, job)
        self._clear()
        say(f"  {name}  {outcome}")

    def _show(self, name: str, job_id: str, files: int) -> None:
        """Show the progress in one line, on a terminal."""
        if not self._is_terminal:
            return
        card = self._api.read(f"{job_path(job_id)}/card", "title")
        percent = "" if card["percent"] is None else f" {card['percent']}%"
        done = self._tally.new + self._tally.unchanged + len(self._tally.failures)
        line = f"{done} of {files}  {name}{percent}  {card['message'] or card['state']}"
        console = err()
        console.print(f"\r{plain(line)[: console.width - 1]}\x1b[K", end="", soft_wrap=True)

    def _clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _summarize(self, files: int) -> int:
        tally = self._tally
        parts = [f"{tally.new:,} added ({tally.passages:,} passages)"]
        parts += [f"{tally.unchanged:,} unchanged"] if tally.unchanged else []
        parts += [f"{len(tally.failures):,} failed"] if tally.failures else []
        say(f"{files:,} documents to {self._collection!r}: {', '.join(parts)}")
        for name, reason in tally.failures:
            complain(f"{name}: {reason}")
        return exit_codes.FAILED if tally.failures else exit_codes.OK


def _files(paths: Sequence[Path], skipped: Counter[str]) -> Iterator[File]:
    for path in paths:
        if not path.is_dir():
            yield File(path, _name_of(path))
            continue
        parent = _name_of(path)
        for found, inside in walk(path, skipped, _skip_reason):
            yield File(found, f"{parent}/{inside}" if parent else inside)


def _name_of(path: Path) -> str:
    """Return a document's name: the relative path as given, or else the file name."""
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or ".." in parts:
        return path.resolve().name
    return "/".join(parts)


def _skip_reason(entry: os.DirEntry[str]) -> str | None:
    if Path(entry.name).suffix.lower() not in SUFFIXES:
        return "not documents"
    return None if entry.name.isprintable() else "with unprintable names"
