"""Kinds as tools, over the Model Context Protocol (MCP).

*The endpoint* is `POST /mcp`, part of the same API as all others (surface.py). The same keys,
`Host` and `Origin` checks, limits and errors apply before any MCP code runs. Requests share no
state, so any replica can answer any request, even after a restart.

*A tool call* submits a job of its kind. The response depends on the client:

- A client that declares the extension `io.modelcontextprotocol/tasks` in its request gets a task
  immediately and polls it with `tasks/get` (tasks.py). The task is the job. Its id is the job's
  public id: 128 random bits, written with the job in one transaction. So no task can be lost
  separately from its job, and replicas share no secret.
- Any other client waits briefly for the result. If the job is not finished by then, the client gets
  the job's id, for the tools `job_status`, `job_result` and `job_cancel` (calls.py).

Calls with the same key in their `_meta` (`coatcheck/idempotencyKey`) are one job. A client that
disconnects cancels nothing.

*Clients that only speak stdio* run `coatcheck mcp`, which forwards each message to the endpoint and
returns the responses (stdio.py). It has no job state, repeats requests that were lost while a
server restarts, and does not need the MCP library.
"""
