"""Relayed calls: a caller's HTTP request becomes a job, and its response is the job's result.

Three entry points are built on this package: proxy rules for another service (surfaces/proxy), a
queue in front of a language model server (surfaces/foreman), and the ASGI middleware (middleware).

**The call** (`call.py`). An entry point stores a request (`intake.py`): method, path and query as
they were written, selected headers, the body. A small body is part of the job's input. A larger one
is an upload, streamed to the blob store as it arrives. The response is stored the same way; a body
that is not small becomes the artifact `body`. Data of a single connection (hop-by-hop headers,
framing, trailers) is not passed on in either direction (`headers.py`).

**The upstream** (`upstream.py`) produces the response: given a call and its body, it yields the
head of a response and then chunks. It reports two failures: *unreachable*, if nothing was sent, and
*broken*, if something may have happened. A complete response is a response, whatever its status. An
upstream is an HTTP service (`http_upstream.py`) or an app in this process.

**The handler** (`handler.py`) makes the call and decides the outcome of the attempt:

- unreachable: back to the queue, and the attempt does not count;
- a status listed in the terms: another attempt while one is left; the last response is the result;
- broken, or timed out: another attempt if the call is repeatable, otherwise the job fails;
- once a byte of the response has reached a waiting caller: no further attempt.

**The socket** (`server_socket.py`, `client_socket.py`, `frames.py`). The caller waits in another
process than the handler, and a store is not made for every chunk of a stream. So a process with
waiting callers listens on a Unix socket, in a folder that only its user can enter, and the job's
input names the socket. When the upstream sends a response head, the handler connects there with the
token of its own job (`socket_folder.py`). From then on each chunk goes to the socket and into the
result. A slow caller slows the upstream. A caller who reads nothing for `STALL_S` counts as
disconnected. If nobody accepts the connection (the caller left, the process ended, or it is on
another machine), the job continues without it. The entry point decides whether a disconnected
caller cancels the job. The input holds a socket's name, not a path, so nobody can make a worker
connect to anything else.

**The responder** (`responder.py`). A waiting caller gets the response from the socket; or, if the
job finishes without a connection, the stored response; or, if the wait runs out before a head
arrives, a 202 with the job's id. A stream that breaks is broken for the caller too: the connection
is closed without the end of the body. If the worker is lost during a stream, the job is cancelled,
because a second attempt could not reach the caller.

**Secrets** (`credentials.py`). Credentials in headers are encrypted for their job, or dropped. A
job whose caller sent a credential carries a keyed hash of it, and its response is encrypted (except
for the artifact of a large one): every request about the job must come with the same credential.
The key is derived from the server's pepper, which is not in the database. Fields of an input that
only the relay writes (`Internal` in `call.py`) are rejected from anybody else. A fork by the owner
gets them anew.
"""
