"""`coatcheck watch`: follow a job until it is finished, and print its outcome.

On a terminal, long polls read the job's new events, and then the job itself. Without a terminal,
the command only waits for the job to finish. If the server becomes unreachable, the command keeps
trying, because the job is durable. Ctrl-C stops the command, never the job.
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

# One long poll for events. A phase without progress shows after this time.
POLL_S = 2.0
# Without a terminal, only the outcome matters.
LONG_POLL_S = 25.0
# Give up if the server is unreachable for longer.
GIVE_UP_AFTER_S = 60.0
RETRY_PAUSE_S = 1.0

TIMEOUT_OPTION = click.option(
    "--timeout",
    callback=read_seconds,
    metavar="DURATION",
    help="Stop waiting after this time, such as 90 or 15m (exit code 6); the job continues.",
)


@click.command()
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@options(TIMEOUT_OPTION, JSON_OPTION, *SERVER_OPTIONS)
def watch(job_id: str, timeout: float | None, as_json: bool, url: str, api_key: str | None) -> None:
    """Follow a job until it is finished, then print its result.

    Shows the job's state, progress and messages. Ctrl-C stops following; the job continues. The
    exit code is the outcome: 0 succeeded, 1 failed, 4 cancelled, 6 not finished within --timeout.

    \b
    Examples:
        coatcheck watch 01JD0Z3N6V8Q2T4W6Y8A0C2E4G
        coatcheck watch 01JD0Z3N6V8Q2T4W6Y8A0C2E4G --timeout 15m > result.json
    """
    with Api(url, api_key) as api:
        sys.exit(watch_to_end(api, job_id, timeout=timeout, raw=as_json))


def watch_to_end(api: Api, job_id: str, *, timeout: float | None, raw: bool) -> int:
    """Follow a job, print its outcome, and return the exit code."""
    hint = f"coatcheck watch {job_id}{address_hint(api.url)}"
    try:
        job = follow(api, job_id, timeout)
    except KeyboardInterrupt:
        say(f"\nThe job continues. Follow it with: {hint}")
        return exit_codes.INTERRUPTED
    if job["finished_at"] is None:
        complain(f"job {job_id} is still {job['state']}; it continues. Follow it with: {hint}")
        return exit_codes.TIMED_OUT
    return print_outcome(job, raw=raw)


def follow(api: Api, job_id: str, timeout: float | None) -> dict[str, Any]:
    """Return a job once it is finished, or its current state after the timeout."""
    job = api.read_job(job_id, explain=True)
    if job["finished_at"] is not None:
        return job
    with LiveView() as view:
        view.show(job)
        return _Follower(api, job, view, timeout).run()


def print_outcome(job: dict[str, Any], *, raw: bool) -> int:
    """Print a result on stdout, or an error on stderr; return the exit code."""
    state = job["state"]
    if state == "succeeded":
        print_value(job["result"], raw=raw)
    elif state == "failed":
        error = job["error"] or {
            "code": "unknown",
            "message": "no error was recorded",
            "detail": None,
        }
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
    """Polls one job until it is finished."""

    def __init__(
        self, api: Api, job: dict[str, Any], view: LiveView, timeout: float | None
    ) -> None:
        self._api = api
        self._job = job
        self._view = view
        self._until = None if timeout is None else time.monotonic() + timeout
        self._seen = 0

    def run(self) -> dict[str, Any]:
        """Return the job once it is finished, or after the timeout."""
        unreachable_since: float | None = None
        while self._job["finished_at"] is None and self._left() > 0:
            try:
                self._poll()
                unreachable_since = None
            except ApiError as error:
                unreachable_since = unreachable_since or time.monotonic()
                may_retry = time.monotonic() - unreachable_since < GIVE_UP_AFTER_S
                if error.exit_code != exit_codes.UNREACHABLE or not may_retry:
                    raise
                self._view.show_message("the server is unreachable; retrying")
                time.sleep(min(RETRY_PAUSE_S, self._left()))
        if self._view.shown and self._job["finished_at"] is not None:
            while self._read_events(0):  # the remaining events
                continue
        return self._job

    def _left(self) -> float:
        return float("inf") if self._until is None else max(0.0, self._until - time.monotonic())

    def _poll(self) -> None:
        """Long-poll for a change, then read the job."""
        began = time.monotonic()
        wait = min(POLL_S if self._view.shown else LONG_POLL_S, self._left())
        if self._view.shown:
            changed = self._read_events(wait)
            self._job = self._api.read_job(self._job["id"], explain=True)
            self._view.show(self._job)
        else:
            self._job = self._api.read_job(self._job["id"], wait=wait)
            changed = self._job["finished_at"] is not None
        if not changed and time.monotonic() - began < wait / 2:
            # The server responded early: it is shutting down.
            time.sleep(min(RETRY_PAUSE_S, self._left()))

    def _read_events(self, wait: float) -> bool:
        """Show new events; tell whether there were any."""
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
            self._view.show_step(f"step {data['seq']}: {step_name(data)} {data['state']}")
