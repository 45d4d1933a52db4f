"""The guard of a worker's processes: kills their process groups when the worker is gone
(orphans.py).

It reads lines of `+<pid>` and `-<pid>`. At the end of its input, the worker has ended. It runs as a
file, without any other module of ours, to stay small.
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
            continue  # it has ended


if __name__ == "__main__":
    main()
