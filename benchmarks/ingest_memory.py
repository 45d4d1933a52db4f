"""Memory and CPU time of reading and chunking a long PDF.

    python -m benchmarks.ingest_memory [pages]

The PDF is created first, then read in a process of its own, once with a hundredth of its pages and
once with all. The difference is the cost of the pages.
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
            _create_pdf(path, count)
            with fresh.Pool(1) as pool:
                print(pool.apply(_measure, (path, count)))


def _create_pdf(path: Path, pages: int) -> None:
    # Imported here, so that the measured processes do not load it.
    from fpdf import FPDF  # noqa: PLC0415

    made = FPDF()
    made.set_font("helvetica", size=11)
    for number in range(1, pages + 1):
        made.add_page()
        made.multi_cell(0, 5, f"Page {number}. {WORDS}")
    made.output(str(path))


def _measure(path: Path, pages: int) -> str:
    before = _peak_megabytes()
    start = time.process_time()
    extracted = read(path, path.name)
    was_read = time.process_time()
    passages = chunk(extracted)
    done = time.process_time()
    return (
        f"{pages:,} pages, {path.stat().st_size / 1e6:.1f} MB, {len(extracted.text):,} characters, "
        f"{len(passages):,} passages: read in {was_read - start:.2f} s of CPU, chunked in "
        f"{done - was_read:.2f} s; {before:.0f} MB before, {_peak_megabytes():.0f} MB at most"
    )


def _peak_megabytes() -> float:
    # Not getrusage, which includes the parent's memory at the fork.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    raise LookupError("VmHWM")


if __name__ == "__main__":
    main()
