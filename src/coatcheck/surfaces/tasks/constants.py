"""Names of executions that other packages use."""

from __future__ import annotations

KIND = "command"
QUEUE = "commands"
# The artifact with the outcome of a command that failed or timed out.
RAN = "ran.json"
