"""Check every pinned dependency against published advisories, with pip-audit.

Exits 0 if no package has a known vulnerability, 1 if one has, and 2 if packages could not be
checked (offline, or an index without advisories): a scan that did not happen is not a pass.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "requirements"
VULNERABLE, UNCHECKED = 1, 2


class Scan(NamedTuple):
    """The outcome of one run of pip-audit."""

    vulnerable: list[str]
    unchecked: list[str]
    checked: int


def main(program: str) -> int:
    """Scan every requirement file and print the findings."""
    files = [f"--requirement={path}" for path in sorted(FOLDER.glob("*.txt"))]
    options = ["--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json"]
    done = subprocess.run(  # noqa: S603
        [program, *options, *files], capture_output=True, text=True, check=False
    )
    if not done.stdout.strip():
        print(done.stderr, file=sys.stderr)
        print("the advisory service did not answer: nothing was checked", file=sys.stderr)
        return UNCHECKED
    scan = read_report(done.stdout)
    for finding in scan.vulnerable:
        print(finding)
    if scan.vulnerable:
        return VULNERABLE
    if scan.unchecked:
        print(
            f"the advisory service does not know {len(scan.unchecked)} packages, which were not "
            f"checked ({scan.checked} were): {', '.join(scan.unchecked[:5])} ...",
            file=sys.stderr,
        )
        return UNCHECKED
    print(f"{scan.checked} packages checked: no known vulnerability")
    return 0


def read_report(text: str) -> Scan:
    """Read pip-audit's JSON report."""
    vulnerable, unchecked, checked = [], [], 0
    for package in json.loads(text)["dependencies"]:
        if "skip_reason" in package:
            unchecked.append(package["name"])
            continue
        checked += 1
        for found in package["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no release"
            vulnerable.append(
                f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}"
            )
    return Scan(vulnerable, sorted(set(unchecked)), checked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
