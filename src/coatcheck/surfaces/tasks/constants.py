"""The names that executions go by, for those who know them from outside."""

from __future__ import annotations

KIND = "command"
QUEUE = "commands"
# The artifact with how a command went that has failed or took too long.
RAN = "ran.json"
