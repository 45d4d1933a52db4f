"""The parts of `coatcheck demo` that go through the built-in surfaces, in their own words."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

POLL_S = 0.1
PATIENCE_S = 60.0
DIAGRAM = """flowchart LR
  You -- "POST /render" --> API
  API -- "202 and an id" --> You
  API --> Job[(Job on disk)]
  Job --> Worker
  Worker -- picture --> Job
"""
PICTURE = Path("data") / "demo-diagram.svg"
TASK = {"id": "demo", "name": "Who am I", "command": "uname -srm"}


class Refused(Exception):
    """A surface did not answer as it should."""


def show_diagram(console: Console, url: str) -> None:
    """Draw a diagram, follow its job, and save the picture."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        job = _ask(http, "POST", "/render", {"source": DIAGRAM, "format": "mermaid"})
        console.print(f"\nPOST /render  ->  202, [bold]{job['jobId']}[/bold]: a diagram")
        ended = _follow(console, http, job["statusUrl"], ("completed", "failed"))
        if ended["status"] != "completed":
            raise Refused(ended["error"])
        picture = http.get(ended["result"]["url"])
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(picture.content)
        size = len(picture.content)
        console.print(f"GET {ended['result']['url']}  ->  {size:,} bytes, saved as {PICTURE}")
        console.print(f"  look at it: {url}{ended['result']['url']}")


def show_command(console: Console, url: str) -> None:
    """Run a command in the sandbox, and show what it says."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        _ask(http, "PUT", "/api/tasks", TASK)
        path = f"/api/tasks/{TASK['id']}/executions"
        begun = _ask(http, "PUT", f"{path}?async=true")
        console.print(f"\nPUT {path}  ->  202, {TASK['command']}: a command, in a sandbox")
        ended = _follow(console, http, begun["links"]["self"], ("SUCCEEDED", "FAILED", "TIMEOUT"))
        if ended["status"] != "SUCCEEDED":
            raise Refused(ended["stderr"])
        console.print(f"  {ended['stdout'].strip()}", markup=False)


def _follow(
    console: Console, http: httpx2.Client, path: str, ends: tuple[str, ...]
) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_S
    with console.status("…") as status:
        while time.monotonic() < until:
            shown = _ask(http, "GET", path)
            status.update(f"GET {path}  ->  {shown['status']}")
            if shown["status"] in ends:
                console.print(f"GET {path}  ->  {shown['status']}")
                return shown
            time.sleep(POLL_S)
    raise Refused(f"{path} has not ended in {PATIENCE_S:g} seconds")


def _ask(http: httpx2.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answer = http.request(method, path, json=body)
    if answer.status_code >= 300:
        raise Refused(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
    return dict(answer.json())
