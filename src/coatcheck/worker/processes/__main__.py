"""The main module of a handler process. Its argument is the descriptor of its socket."""

from __future__ import annotations

import sys

from coatcheck.worker.processes.child import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
