"""Following a job to its end, and what is said then.

On a terminal the job's log is read by long polls; each brings what was added since the last, and
then the job itself is read. Elsewhere only its end is waited for. A server that goes away in
between is waited for, as the job is durable and so is the wait. Ctrl-C ends the watching and never
the job.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, ApiError
from coatcheck.cli.options import (
    JSON_OPTION,
    SERVER_OPTIONS,
    address_hint,
    complete_jobs,
    options,
)
from coatcheck.cli.output.job_pages import step_name
from coatcheck.cli.output.live import LiveView
from coatcheck.cli.output.terminal import complain, err, plain, print_value, say
from coatcheck.cli.output.time_format import age, read_seconds

# One long poll of the log: a phase that comes without progress is seen after this long.
POLL_S = 2.0
# Where nobody looks on, only the end matters.
LONG_POLL_S = 25.0
# A server that is away longer than this is not coming back soon.
GIVE_UP_AFTER_S = 60.0
RETRY_PAUSE_S = 1.0

TIMEOUT_OPTION = click.option(
    "--timeout",
    callback=read_seconds,
    metavar="DURATION",
    help="Stop waiting after this long, such as 90 or 15m (exit code 6); the job goes on.",
)


@click.command()
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@options(TIMEOUT_OPTION, JSON_OPTION, *SERVER_OPTIONS)
def watch(job_id: str, timeout: float | None, as_json: bool, url: str, api_key: str | None) -> None:
    """Watch a job until it ends, then print its result.

    Shows where it stands, how far it has come and what it says of itself; a job that has ended
    shows how it ended. Ctrl-C stops watching: the job goes on. The exit code tells the outcome:
    0 succeeded, 1 failed, 4 cancelled, 6 not ended within --timeout.

    \b
    Examples:
        coatcheck watch 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck watch 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --timeout 15m > result.json
    """
    with Api(url, api_key) as api:
        sys.exit(watch_to_end(api, job_id, timeout=timeout, raw=as_json))


def watch_to_end(api: Api, job_id: str, *, timeout: float | None, raw: bool) -> int:
    """Follow a job, print how it ended, and return the exit code."""
    come_back = f"coatcheck watch {job_id}{address_hint(api.url)}"
    try:
        job = follow(api, job_id, timeout)
    except KeyboardInterrupt:
        say(f"\nThe job goes on. Come back to it with: {come_back}")
        return exit_codes.INTERRUPTED
    if job["finished_at"] is None:
        complain(
            f"job {job_id} is still {job['state']}; it goes on. Come back to it with: {come_back}"
        )
        return exit_codes.TIMED_OUT
    return print_outcome(job, raw=raw)


def follow(api: Api, job_id: str, timeout: float | None) -> dict[str, Any]:
    """Return a job when it has ended, or as it stands when the time runs out."""
    job = api.read_job(job_id, explain=True)
    if job["finished_at"] is not None:
        return job
    with LiveView() as view:
        view.show(job)
        return _Follower(api, job, view, timeout).run()


def print_outcome(job: dict[str, Any], *, raw: bool) -> int:
    """Print a result on stdout, or why there is none on stderr; return the exit code."""
    state = job["state"]
    if state == "succeeded":
        print_value(job["result"], raw=raw)
    elif state == "failed":
        error = job["error"] or {"code": "unknown", "message": "no error was kept", "detail": None}
        why = f" ({job['reason']})" if job["reason"] else ""
        complain(f"job {job['id']} failed{why}: {error['code']}: {plain(error['message'])}")
        if error["detail"] and err().is_terminal:
            say(plain(error["detail"], keep="\n\t"))
    else:
        complain(f"job {job['id']} was {state}")
    if err().is_terminal:
        say(f"{state} after {age(job['created_at'], job['finished_at'])}")
    return exit_codes.OF_STATE.get(state, exit_codes.FAILED)


class _Follower:
    """One wait for one job."""

    def __init__(
        self, api: Api, job: dict[str, Any], view: LiveView, timeout: float | None
    ) -> None:
        self._api = api
        self._job = job
        self._view = view
        self._until = None if timeout is None else time.monotonic() + timeout
        self._seen = 0

    def run(self) -> dict[str, Any]:
        """Return the job when it has ended, or when the time has run out."""
        away_since: float | None = None
        while self._job["finished_at"] is None and self._left() > 0:
            try:
                self._look()
                away_since = None
            except ApiError as error:
                away_since = away_since or time.monotonic()
                patient = time.monotonic() - away_since < GIVE_UP_AFTER_S
                if error.exit_code != exit_codes.UNREACHABLE or not patient:
                    raise
                self._view.tell("the server does not answer; waiting for it")
                time.sleep(min(RETRY_PAUSE_S, self._left()))
        if self._view.shown and self._job["finished_at"] is not None:
            while self._read_log(0):  # what it said since, its last words among it
                continue
        return self._job

    def _left(self) -> float:
        return float("inf") if self._until is None else max(0.0, self._until - time.monotonic())

    def _look(self) -> None:
        """Wait for something to happen, and see how the job stands then."""
        began = time.monotonic()
        wait = min(POLL_S if self._view.shown else LONG_POLL_S, self._left())
        if self._view.shown:
            moved = self._read_log(wait)
            self._job = self._api.read_job(self._job["id"], explain=True)
            self._view.show(self._job)
        else:
            self._job = self._api.read_job(self._job["id"], wait=wait)
            moved = self._job["finished_at"] is not None
        if not moved and time.monotonic() - began < wait / 2:
            # Answered early: the server is about to stop, and another one will come.
            time.sleep(min(RETRY_PAUSE_S, self._left()))

    def _read_log(self, wait: float) -> bool:
        """Show what was added to the log, and tell whether anything was."""
        page = self._api.read_events(self._job["id"], self._seen, wait)
        for event in page["events"]:
            self._seen = event["seq"]
            self._show_event(event)
        return bool(page["events"])

    def _show_event(self, event: dict[str, Any]) -> None:
        data = event["data"]
        if event["type"] == "log":
            fields = " ".join(
                f"{name}={value}" for name, value in data.items() if name != "message"
            )
            self._view.log(f"{data.get('message', '')}  {fields}".rstrip())
        elif event["type"] == "step" and data["state"] != "waiting":
            self._view.step(f"step {data['seq']}: {step_name(data)} {data['state']}")
