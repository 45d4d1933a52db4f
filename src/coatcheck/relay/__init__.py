"""Relayed calls: an HTTP call that somebody makes is a job, and its answer is the job's result.

Three doors are built on this: rules that hand calls on to another service (surfaces/proxy), a queue
before a language model's server (surfaces/foreman), a wrapper around an ASGI app (middleware).

**The call** (`call.py`). A door takes a request in (`relay/intake.py`): method, path and query as
they were written, the headers it chose, the body. A small body is in the job's input, any other is
an upload of the engine's, written away while it arrives. The answer is kept the same way, its body
as the artifact `body` where it is not small. What concerns one connection only (hop-by-hop headers,
framing, trailers) is never passed on, in neither direction (`headers.py`).

**The upstream** (`upstream.py`) is whoever answers in the end: given a call and its body, it gives
the head of an answer and then its chunks. It says how it failed: *unreachable*, where nothing was
sent, or *broken*, where something may have happened. Any complete answer is an answer, whatever its
status. An upstream is HTTP (`http_upstream.py`), or an app in this process.

**The handler** (`relay/handler.py`) makes the call and decides what becomes of the job:

- unreachable: back to the queue, and the attempt does not count;
- a status that the terms name: another attempt, while there is one left; the last answer stands;
- broken, or out of time: another attempt if the call may be repeated, else the job has failed;
- once the first byte has gone to a caller who waits: nothing is tried again.

**The line** (`relay/server_socket.py`, `relay/client_socket.py`, `wire.py`). Who waits for an
answer is in another process than the handler, and a store is no place for every chunk of a stream.
So a process with waiting callers listens on a Unix socket in a folder that only its user can enter,
and the job's input carries the socket's name. As soon as the upstream has answered with a head, the
handler dials there with the ticket of its own job (`relay/socket_folder.py`), and what the upstream
says goes two ways: down the line as it comes, and into the result. A slow reader slows the
upstream. One who takes nothing for `STALL_S` counts as gone. If nobody answers at the other end
(the caller has left, the process has ended, it is on another machine), the job goes on without it;
whether a caller who hangs up takes the job along is the door's choice. The input names a socket and
not a path, so nobody can make a worker dial anything else.

**The answering** (`relay/responder.py`). Who waits gets what comes down the line; or, if the job
ends and nobody has dialled, what was kept; or, when the door's patience runs out before there is a
head, a 202 and the job's id. A stream that ends without its end is broken off where the caller sees
it: the connection is closed without the end of the body. If the worker is lost behind it, the job
is cancelled, for nobody could tell the caller of a second try.

**Secrets** (`relay/credentials.py`). Credentials in headers are encrypted for their job, or left
out. A job whose caller came with a credential carries a keyed hash of it, and its answer is
encrypted (of one that is not small, all but the file): every request about the job has to come with
the same credential. The key is made from the server's pepper, which is not in the database. Fields
of an input that are the relay's own (`Internal` in `call.py`) are rejected from everybody else. A
fork by the owner gets them anew (`relay/fork.py`).
"""
