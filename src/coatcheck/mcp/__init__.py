"""Kinds as the tools of an assistant, by the Model Context Protocol (MCP).

*The door* is `POST /mcp`, a call of the same API as all others (surface.py): the same keys, checks
of `Host` and `Origin`, limits and refusals hold before anything of MCP is looked at. Nothing is
remembered between two requests, so any replica answers any of them, also after a restart.

*A call of a tool* submits a job of its kind. What comes back depends on who asks:

- A client that declares the extension `io.modelcontextprotocol/tasks` with its request is given a
  task at once and asks after it with `tasks/get` (tasks.py). The task is the job. Its id is the
  job's public id: 128 random bits, written with the job in one transaction. So there is nothing
  that could be lost apart from the job, and no secret that replicas would have to share.
- Anybody else waits a moment for the result; where that does not come, they are given the job's id,
  and the tools `job_status`, `job_result` and `job_cancel` to come back with (calling.py).

A call that is repeated under the same key in its `_meta` (`coatcheck/idempotencyKey`) is one job.
A client that goes away cancels nothing.

*Who only speaks over stdio* runs `coatcheck mcp`, which hands each message on to that door and
brings the answers back (stdio.py). It holds no state of jobs either, repeats what was lost while a
server restarts, and needs none of the libraries that the door needs.
"""
