"""Steps of DBOS workflows, on either database, started without a queue: its faster way."""

from __future__ import annotations

import argparse
import time
from typing import Any

from dbos import DBOS

from benchmarks.peers import protocol


@DBOS.step()
def nothing(number: int) -> int:
    """Do nothing, as the function of a step."""
    return number


@DBOS.workflow()
def stepping(data: dict[str, int]) -> float:
    """Run the given number of steps and return the seconds."""
    began = time.monotonic()
    for number in range(data["n"]):
        nothing(number)
    return time.monotonic() - began


def take(options: argparse.Namespace) -> dict[str, Any]:
    """Run `count` steps in each of `callers` concurrent workflows."""
    DBOS.start_workflow(stepping, {"n": 10}).get_result()
    start, cpu = time.monotonic(), protocol.cpu_seconds()
    asked = protocol.payload(options.count)
    handles = [DBOS.start_workflow(stepping, asked) for _ in range(options.callers)]
    taken = [handle.get_result() for handle in handles]
    seconds, cpu = time.monotonic() - start, protocol.cpu_seconds() - cpu
    if options.callers == 1:
        [seconds] = taken
    return protocol.rate({"jobs": options.count * options.callers, "seconds": seconds}, cpu)


def check(stored: int, options: argparse.Namespace) -> None:
    """Raise unless all steps are recorded."""
    assert stored >= options.count * options.callers, f"{stored} steps on record"
