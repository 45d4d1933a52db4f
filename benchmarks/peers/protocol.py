"""The protocol of every system under test: a verb and options in, one line of JSON out.

Coatcheck uses it too (benchmarks/ours.py), so each measure starts, times and checks all systems
alike, each in a fresh process. Verbs:

    describe    versions, and the durability settings as the system's own connection reports them
    enqueue     submit jobs without a worker, from `callers` callers, for `seconds`
    drain       submit jobs for `seconds`, then start the workers and time until all have a result
    end-to-end  submit for `seconds` while workers run; time from the first submit to the last
                result. With `processes` 2 the workers are a process of their own.
    pickup      on an idle system, `count` times: from the call of submit to the handler's start
    steps       run `count` durable steps in each of `callers` concurrent jobs
    idle        start the workers without jobs for `seconds`, report the CPU time

`work` is for the two-process runs only: be the worker until standard input ends, so that no worker
outlives the process that started it.

Standard library only: this runs in the environments of the peers.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Verb = Callable[[argparse.Namespace], dict[str, Any]]
# Runs a query on a connection of its own and returns the rows.
Look = Callable[[str], list[Any]]

# An upper bound that no run should reach.
MOST_JOBS = 400_000
# Poll interval for the end of a run; each poll is one index seek.
LOOK_EVERY_S = 0.01
# A run that takes longer is reported as failed.
PATIENCE_S = 120.0


def main(verbs: dict[str, Verb]) -> None:
    """Run one verb in a folder of its own and print what it measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=sorted(verbs))
    parser.add_argument("--under", type=Path, required=True, help="where to put the database")
    parser.add_argument("--variant", default="default")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="0: the variant's best")
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--isolation", default="async")
    options = parser.parse_args()
    if options.verb == "work":
        verbs["work"](options)
        return
    options.under = Path(tempfile.mkdtemp(prefix="run-", dir=options.under))
    try:
        answer = verbs[options.verb](options)
    finally:
        shutil.rmtree(options.under, ignore_errors=True)
    print(json.dumps(answer), flush=True)


def payload(number: int) -> dict[str, int]:
    """Return the small JSON input every job gets, on every system."""
    return {"n": number}


def submit_from_threads(
    submit: Callable[[int], object], callers: int, seconds: float, most: int = MOST_JOBS
) -> dict[str, Any]:
    """Call `submit` from concurrent threads, each waiting for its commit, until the time is up."""
    numbers = itertools.count()
    start = time.monotonic()
    until = start + seconds
    counts = [0] * callers
    errors: list[str] = []

    def call(caller: int) -> None:
        try:
            while time.monotonic() < until and (number := next(numbers)) < most:
                submit(number)
                counts[caller] += 1
        except Exception as error:  # noqa: BLE001 - becomes the report of a failed run
            errors.append(f"{type(error).__name__}: {error}")

    if callers == 1:
        call(0)
    else:
        threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise RuntimeError(f"{len(errors)} of {callers} callers failed, the first with {errors[0]}")
    return {"started": start, "jobs": sum(counts), "seconds": time.monotonic() - start}


def rate(measured: dict[str, Any], cpu: float | None = None) -> dict[str, Any]:
    """Return jobs per second and, if given, the CPU time per job."""
    answer = {
        "jobs": measured["jobs"],
        "seconds": measured["seconds"],
        "per_second": measured["jobs"] / measured["seconds"],
    }
    if cpu is not None:
        answer["cpu_us_per_job"] = 1e6 * cpu / measured["jobs"]
    return answer


def wait_until_done(look: Look, unfinished: str, finished: str, jobs: int) -> float:
    """Return when the last job was done; `unfinished` finds one that is not, `finished` counts.

    Looks through a connection of its own, and counts only once nothing is left: a count of all
    rows would cost more as the run goes on. The connection must come from the library the system
    itself uses: two copies of SQLite in one process break each other's locks on a file.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not look(unfinished):
            end = time.monotonic()
            if look(finished)[0][0] >= jobs:
                return end
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"{look(finished)[0][0]} of {jobs} jobs were done after {PATIENCE_S:.0f} s")


def idle_gaps(count: int) -> Iterator[int]:
    """Yield numbers, each after a random pause that is not in step with any polling."""
    spread = random.Random(20)  # the same gaps for every system
    for number in range(count):
        time.sleep(spread.uniform(0.02, 0.09))
        yield number


@contextlib.contextmanager
def worker_process(module: str, options: argparse.Namespace) -> Iterator[None]:
    """Run `work` of a module in a second process until the end of the block."""
    command = [sys.executable, "-m", module, "work", "--under", str(options.under)]
    command += ["--variant", options.variant, "--workers", str(options.workers)]
    command += ["--isolation", options.isolation]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError(f"the worker process ended at once ({process.wait()})")
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def serve_until_told() -> None:
    """Report that the worker is ready; return when the parent process is done."""
    print("ready", flush=True)
    sys.stdin.read()


def cpu_seconds() -> float:
    """Return the CPU time this process has used so far, threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
