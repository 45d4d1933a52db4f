"""A long PDF: what reading it and cutting it into passages holds in memory, and how long it takes.

    python -m benchmarks.ingest_memory [pages]

The PDF is made first, then read in a process of its own, once with a hundredth of its pages and
once with all: what lies between the two is what pages cost.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

from coatcheck.surfaces.ingest.chunker import chunk
from coatcheck.surfaces.ingest.readers import read

WORDS = "Every coat that is handed in at the door gets a ticket with a number of its own. " * 35


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for count in (max(1, pages // 100), pages):
            path = Path(folder) / f"{count}.pdf"
            _make(path, count)
            with fresh.Pool(1) as pool:
                print(pool.apply(_measured, (path, count)))


def _make(path: Path, pages: int) -> None:
    # Here, so that the processes that are measured do without.
    from fpdf import FPDF  # noqa: PLC0415

    made = FPDF()
    made.set_font("helvetica", size=11)
    for number in range(1, pages + 1):
        made.add_page()
        made.multi_cell(0, 5, f"Page {number}. {WORDS}")
    made.output(str(path))


def _measured(path: Path, pages: int) -> str:
    before = _most_megabytes()
    start = time.process_time()
    extracted = read(path, path.name)
    was_read = time.process_time()
    passages = chunk(extracted)
    done = time.process_time()
    return (
        f"{pages:,} pages, {path.stat().st_size / 1e6:.1f} MB, {len(extracted.text):,} characters, "
        f"{len(passages):,} passages: read in {was_read - start:.2f} s of CPU, cut in "
        f"{done - was_read:.2f} s; {before:.0f} MB before, {_most_megabytes():.0f} MB at most"
    )


def _most_megabytes() -> float:
    # Not by getrusage: that counts what the parent held when it forked.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    raise LookupError("VmHWM")


if __name__ == "__main__":
    main()
