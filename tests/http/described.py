"""Whether a server does what its description says: Schemathesis against the live thing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A stream is read to its end: the server under test cuts it where nothing more happens.
_CONFIG = """
request-timeout = 20.0

[checks]
# Fitting the schema is not enough where a cursor, a key or the id of a deleted job must be one that
# was given out.
positive_data_acceptance.enabled = false
"""


def find_differences(url: str, folder: Path, *options: str, config: str = _CONFIG) -> str:
    """Call a server in many ways and return what does not fit its description; hopefully ""."""
    settings = folder / "schemathesis.toml"
    settings.write_text(config)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings)),
            *("run", f"{url}/openapi.json", "--no-color", "--generation-deterministic"),
            *("--no-shrink", "--warnings", "off"),
            *("--suppress-health-check", "all", "--continue-on-failure"),
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return "" if ended.returncode == 0 else f"{ended.stdout}\n{ended.stderr}"
