"""Jobs and steps as tables and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.cli.output.tables import TableColumn, print_pairs, print_table
from coatcheck.cli.output.terminal import dumps, out, plain, pretty
from coatcheck.cli.output.time_format import age, relative

COLUMNS = (
    TableColumn("ID"),
    TableColumn("KIND", 1),
    TableColumn("STATE"),
    TableColumn("QUEUE", 5),
    TableColumn("AGE", 2),
    TableColumn("TOOK", 4),
    TableColumn("PROGRESS", 3),
)
STEP_COLUMNS = (
    TableColumn("#"),
    TableColumn("STEP"),
    TableColumn("STATE"),
    TableColumn("ATTEMPTS", 3),
    TableColumn("TOOK", 2),
    TableColumn("OUTCOME", 1),
)


def print_jobs(jobs: Sequence[dict[str, Any]]) -> None:
    """Print jobs as a table."""
    print_table(
        COLUMNS,
        [
            (
                job["id"],
                job["kind"],
                job["state"],
                job["queue"],
                age(job["created_at"]),
                _took(job),
                _summary(job),
            )
            for job in jobs
        ],
    )


def print_job(job: dict[str, Any], steps: Sequence[dict[str, Any]] = ()) -> None:
    """Print a job in full."""
    print_pairs(
        [
            ("id", job["id"]),
            ("kind", job["kind"]),
            ("state", _state(job)),
            ("queue", job["queue"]),
            ("position", job.get("position")),
            ("priority", job["priority"]),
            ("attempt", f"{job['attempt']} of {job['max_attempts']}"),
            ("progress", format_progress(job["progress"])),
            ("parent", job["parent"]),
            ("forked from", job["forked_from"]),
            ("labels", ", ".join(f"{name}={value}" for name, value in job["labels"].items())),
            ("created", _moment(job["created_at"])),
            ("scheduled", _moment(job["run_at"]) if job["run_at"] != job["created_at"] else None),
            ("started", _moment(job["started_at"])),
            ("finished", _moment(job["finished_at"])),
            ("took", _took(job)),
            ("expires", _moment(job["expires_at"])),
        ]
    )
    if steps:
        out().print()
        print_steps(steps)
    if job["state"] == "succeeded":
        out().print(f"\nresult\n{pretty(job['result'])}", soft_wrap=True)
    elif job["error"]:
        error = job["error"]
        out().print(f"\nerror  {plain(error['code'])}: {plain(error['message'])}", soft_wrap=True)
        if error["detail"]:
            out().print(plain(error["detail"], keep="\n\t"), soft_wrap=True)


def print_steps(steps: Sequence[dict[str, Any]]) -> None:
    """Print a job's recorded steps as a table."""
    rows = [
        (
            number,
            step_name(step),
            step["state"],
            step["attempts"],
            age(step["started_at"], step["finished_at"]),
            _outcome(step),
        )
        for number, step in enumerate(steps)
    ]
    print_table(STEP_COLUMNS, rows)


def step_name(step: dict[str, Any]) -> str:
    """Return the name of a step with its key or occurrence."""
    name = step["name"] if step["op"] in ("step", step["name"]) else f"{step['op']} {step['name']}"
    if step["key"] is not None:
        return f"{name} [{step['key']}]"
    return f"{name} #{step['occurrence'] + 1}" if step.get("occurrence") else str(name)


def _outcome(step: dict[str, Any]) -> str:
    if step["state"] == "waiting" and "wake_at" in step:
        return f"until {step['wake_at']}"
    if "error" in step:
        return f"{step['error']['code']}: {step['error']['message']}"
    return dumps(step["result"]) if "result" in step else ""


def format_progress(progress: dict[str, Any] | None) -> str:
    """Format a job's progress."""
    if progress is None:
        return ""
    done, total, message = progress["done"], progress["total"], progress["message"]
    amount = f"{100 * done / total:.0f}%" if total else f"{done:g}"
    return f"{amount} {message}" if message else amount


def _state(job: dict[str, Any]) -> str:
    words = [job["state"]]
    if job["phase"]:
        words.append(f"({job['phase']})")
    if job["reason"]:
        words.append(f"(reason: {job['reason']})")
    return " ".join(words)


def _summary(job: dict[str, Any]) -> str:
    if job["state"] == "failed" and job["error"]:
        return str(job["error"]["code"])
    return format_progress(job["progress"])


def _took(job: dict[str, Any]) -> str:
    """Format the duration of the last attempt."""
    if job["state"] in ("queued", "waiting"):
        return ""
    return age(job["started_at"], job["finished_at"])


def _moment(moment: str | None) -> str | None:
    return None if moment is None else f"{moment} ({relative(moment)})"
