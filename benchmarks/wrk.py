"""The load generator `wrk`, if installed. It is written in C and leaves the server more CPU than
http_load.py; a second generator also shows whether a result is an artifact of the first.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

TIMEOUT_S = 120


def is_there() -> bool:
    """Return whether wrk is installed."""
    return shutil.which("wrk") is not None


def load(
    port: int,
    folder: Path,
    *,
    connections: int,
    seconds: float,
    method: str = "POST",
    path: str = "/v1/jobs",
    body: str = '{"kind":"job","input":{"n":1}}',
) -> dict[str, Any]:
    """Send requests with one thread of wrk; no request may fail."""
    script = folder / "wrk.lua"
    script.write_text(
        f"wrk.method = {json.dumps(method)}\nwrk.body = {json.dumps(body)}\n"
        'wrk.headers["Content-Type"] = "application/json"\n'
    )
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(script)]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}{path}"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    if refused := re.search(r"Non-2xx.*|Socket errors.*", done.stdout):
        raise RuntimeError(f"requests were refused or lost: {refused[0]}")
    answers = _number(r"(\d+) requests in", done.stdout)
    return {
        "answers": answers,
        "seconds": answers / _number(r"Requests/sec:\s+([\d.]+)", done.stdout),
    }


def _number(pattern: str, said: str) -> float:
    found = re.search(pattern, said)
    if found is None:
        raise RuntimeError("wrk did not say how many requests it made")
    return float(found[1])
