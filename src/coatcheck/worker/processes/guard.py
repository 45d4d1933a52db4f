"""The guard of a worker's processes: kills their groups when the worker is gone (see orphans.py).

It reads `+<pid>` and `-<pid>`, a line each, and when there is no more to read, its worker has
ended. Run as a file of its own, without our other modules: it should weigh next to nothing.
"""

import os
import signal
import sys


def main() -> None:
    """Watch until the worker is gone."""
    watched = set()
    for line in sys.stdin.buffer:
        pid = int(line[1:])
        if line[:1] == b"+":
            watched.add(pid)
        else:
            watched.discard(pid)
    for pid in watched:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            continue  # it is gone


if __name__ == "__main__":
    main()
