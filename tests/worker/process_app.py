"""An app whose handlers run in processes, and connect to a test's rendezvous."""

from __future__ import annotations

import asyncio
import ctypes
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from coatcheck import App, Context, Fail, Retry, Upload
from coatcheck.errors import CoatcheckError, JobFailed, StepFailed

app = App()

# Raises at import, but only in a worker's process, never in the test's own.
if (_deaths := os.environ.get("PROCESS_APP_DIES")) is not None:
    with Path(_deaths).open("a") as _file:
        _file.write("died\n")
    os._exit(7)
if "PROCESS_APP_RAISES" in os.environ:
    raise RuntimeError("this module is not for you")
if "PROCESS_APP_SLEEPS" in os.environ:
    time.sleep(3600)


def meet(port: int, what: str = "") -> None:
    """Report to the test that the handler has got this far, and wait until it may continue."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{os.getpid()} {what}\n".encode())
        connection.recv(1)


@app.job(isolation="process")
def double(ctx: Context, n: int) -> int:
    return n * 2


@app.job(isolation="process")
async def double_async(ctx: Context, n: int) -> int:
    await asyncio.sleep(0)
    return n * 2


@app.job
async def on_the_loop(ctx: Context) -> int:
    return os.getpid()


@app.job(isolation="process")
def where(ctx: Context) -> dict[str, Any]:
    """Return a description of the process."""
    descriptors = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            descriptors[link.name] = str(link.readlink())
        except FileNotFoundError:
            continue
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "group": os.getpgid(0),
        "thread": threading.current_thread().name,
        "stdin": sys.stdin.read(),
        "descriptors": descriptors,
    }


@app.job(isolation="process")
def about_itself(ctx: Context) -> list[Any]:
    return [ctx.job_id, ctx.attempt, ctx.cancelled]


@app.job(isolation="process")
def talk(ctx: Context, times: int) -> None:
    ctx.phase("talking")
    for n in range(times):
        ctx.progress(n + 1, times, "so far")
    ctx.log("finished", times=times)


@app.job(isolation="process")
async def talk_async(ctx: Context, times: int) -> None:
    await ctx.phase("talking")
    for n in range(times):
        await ctx.progress(n + 1, times, "so far")
    await ctx.log("finished", times=times)


@app.job(isolation="process")
def talk_then_wait(ctx: Context, port: int) -> None:
    ctx.phase("talking")
    ctx.progress(1, 2, "half way")
    meet(port)


@app.job(isolation="process", retries=0)
def hold(ctx: Context, port: int) -> str:
    meet(port)
    return "held"


@app.job(isolation="process", retries=1)
def hold_and_retry(ctx: Context, port: int) -> int:
    if ctx.attempt == 1:
        meet(port)
    return ctx.attempt


@app.job(isolation="process", timeout="300ms", retries=0)
def deaf(ctx: Context, port: int) -> None:
    meet(port)


def hold_the_interpreter(port: int) -> None:
    """Sleep in C with the interpreter lock held: no other thread of the process can run."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(f"{os.getpid()} \n".encode())
    ctypes.PyDLL(None).sleep(3600)


@app.job(isolation="process", timeout="300ms", retries=0)
def holds_the_interpreter(ctx: Context, port: int) -> None:
    hold_the_interpreter(port)


@app.job(isolation="process", retries=3)
def step_holds_the_interpreter(ctx: Context, port: int) -> None:
    ctx.step(hold_the_interpreter, port, timeout="300ms", on_timeout="fail")


@app.job(isolation="process", retries=3)
async def step_holds_its_thread(ctx: Context, port: int) -> None:
    await ctx.step(meet, port, timeout="300ms", on_timeout="fail")


@app.job(isolation="process", retries=3)
def step_is_in_time(ctx: Context) -> int:
    for number in range(3):
        ctx.step(os.getpid, key=number, timeout="1m", on_timeout="fail")
    return os.getpid()


@app.job(isolation="process", retries=0)
def stuck(ctx: Context, port: int) -> None:
    hold_the_interpreter(port)


@app.job(isolation="process", timeout="300ms", retries=0)
async def polite_async(ctx: Context, port: int) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        meet(port, f"stopped {ctx.cancelled}")


@app.job(isolation="process", retries=0)
def until_cancelled(ctx: Context, port: int) -> None:
    meet(port, "begun")
    try:
        while True:
            ctx.progress(1)
    except BaseException as error:
        meet(port, f"stopped {type(error).__name__}")
        raise


@app.job(isolation="process", retries=0)
def with_grandchild(ctx: Context, port: int) -> None:
    sleeper = subprocess.Popen(["sleep", "3600"])
    meet(port, str(sleeper.pid))


@app.job(isolation="process", retries=0)
def dies(ctx: Context, how: str) -> None:
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "exit-0":
            os._exit(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "abort":
            os.abort()
        case "close":
            os.closerange(3, 256)  # so it cannot report its outcome
        case "scribble":
            for number in range(3, 256):
                try:
                    os.write(number, b"\0\0\0\1\0\0\0\0?" * 64)
                except OSError:
                    continue
            time.sleep(3600)


@app.job(isolation="process", retries=1)
def dies_once(ctx: Context) -> int:
    if ctx.attempt == 1:
        os._exit(1)
    return ctx.attempt


@app.job(isolation="process", retries=0)
def raises(ctx: Context, what: str) -> None:
    match what:
        case "fail":
            raise Fail("no-good", "give up")
        case "retry":
            raise Retry("later", after=3600)
        case "exit":
            sys.exit(4)
    raise ValueError(what)


@app.job(isolation="process", memory="64MB", retries=0)
def fills(ctx: Context, megabytes: int) -> int:
    return len(bytearray(megabytes * 1_000_000))


@app.job(isolation="process", memory="64MB", retries=0)
async def fills_async(ctx: Context, megabytes: int) -> int:
    return len(bytearray(megabytes * 1_000_000))


@app.job(isolation="process", retries=0)
def fills_freely(ctx: Context, megabytes: int) -> int:
    return len(bytearray(megabytes * 1_000_000))


@app.job(isolation="process")
def pid(ctx: Context) -> int:
    return os.getpid()


@app.job(isolation="process")
def echo(ctx: Context, text: str) -> str:
    return text


@app.job(isolation="process")
def chatter(ctx: Context, size: int) -> str:
    """Report more than a pipe can hold, and return as much."""
    for _ in range(10):
        ctx.log("x" * size)
    return "y" * size


@app.job(isolation="process")
def prints(ctx: Context, text: str) -> None:
    print(text)
    print(text, file=sys.stderr)
    logging.getLogger("tests").warning("logged in a process")


@app.job(isolation="process")
def turn_around(ctx: Context, text: str) -> str:
    return text[::-1]


@app.job(isolation="process")
def leave_at_end(ctx: Context, text: str) -> None:
    ctx.artifact("note.txt", text.encode(), at_end=True)


@app.job(isolation="process")
def asks_for_a_step(ctx: Context) -> Any:
    return ctx.step(os.getpid)


@app.job(isolation="process")
def asks_for_a_step_and_fails(ctx: Context) -> Any:
    try:
        return ctx.step(os.getpid)
    except CoatcheckError:
        raise Fail("no-step", "there was no step") from None


@app.job(isolation="process")
def leave_files(ctx: Context, folder: str) -> list[int]:
    """Store an artifact of each type: bytes, a path, an open file."""
    path = Path(folder) / "numbers.csv"
    kept = [ctx.artifact("bytes.bin", b"x" * 3_000_000), ctx.artifact("numbers.csv", path)]
    with path.open("rb") as file:
        kept.append(ctx.artifact("again", file, "text/csv"))
    return [artifact.size for artifact in kept]


class Torn(io.BytesIO):
    """A file that cannot be read to its end."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError("torn")
        return super().read(size)


@app.job(isolation="process", retries=0)
def leave_a_torn_file(ctx: Context, torn: bool) -> int:
    """Send only a part of an artifact, or all of it."""
    content = b"x" * 10_000_000
    return int(ctx.artifact("file", Torn(content) if torn else content).size)


@app.job(isolation="process")
def spawn_large(ctx: Context, text: str) -> list[str]:
    """Spawn jobs with large inputs and results."""
    return [result[:3] for result in ctx.gather(*(ctx.spawn("turn_around", text) for _ in "ab"))]


@app.job(isolation="process", retries=0)
async def leave_files_async(ctx: Context, name: str) -> str:
    kept = await ctx.artifact(name, b"from a loop", at_end=name == "page.html")
    return str(kept.content_type)


# --- durable operations


def note(path: str, what: str) -> str:
    """Log that this ran, and return it."""
    with Path(path).open("a") as file:
        file.write(f"{what}\n")
    return what


async def note_async(path: str, what: str) -> str:
    await asyncio.sleep(0)
    return note(path, what)


@app.job(isolation="process")
def journey(ctx: Context, path: str) -> list[Any]:
    """Run steps, sleep, wait for an event and for other jobs."""
    first = ctx.step(note, path, "first")
    ctx.log("before the sleep")
    ctx.sleep(1.1)
    ctx.step(note_async, path, "second", timeout=30)
    go = ctx.wait_for("go")
    handles = [ctx.spawn("double", n) for n in range(3)]
    return [first, go, ctx.gather(*handles), ctx.attempt]


@app.job(isolation="process")
async def journey_async(ctx: Context, path: str) -> list[Any]:
    first, *_ = await asyncio.gather(
        *(ctx.step(note, path, what, key=what) for what in ("first", "second"))
    )
    await ctx.log("before the sleep")
    await ctx.sleep(1.1)
    go = await ctx.wait_for("go")
    handles = [await ctx.spawn("double", n) for n in range(3)]
    return [first, go, await ctx.gather(*handles), ctx.attempt]


@app.job(isolation="process")
def two_steps(ctx: Context, where: tuple[str, int]) -> list[Any]:
    """Run two steps. In the first attempt, the second step meets the test and does not continue."""
    path, port = where
    ctx.step(note, path, "first")

    def second() -> str:
        note(path, ctx.step_key)
        if ctx.attempt == 1:
            meet(port)
            while True:
                ctx.progress(1)  # where a `def` handler notices the interrupt
        return "second"

    return [ctx.step(second), ctx.attempt]


@app.job(isolation="process", retries=0)
def spawns_what_is_not_there(ctx: Context, kind: str) -> str:
    try:
        ctx.spawn(kind, "not a number")
    except Exception as error:  # noqa: BLE001 - what it is, is the question
        return f"{type(error).__name__}: {error}"
    return "spawned"


@app.job(isolation="process", retries=0)
def outlives_a_failure(ctx: Context, path: str) -> str:
    def fails() -> None:
        note(path, "tried")
        raise OSError("the line is dead")

    try:
        ctx.step(fails)
    except StepFailed as error:
        ctx.sleep(1.1)
        return error.message
    return "never"


@app.job(isolation="process")
def read_upload(ctx: Context, file: Upload) -> str:
    path: Path = ctx.file(file)
    return f"{path.name} {path.read_text()} {path}"


@app.job(isolation="process")
def large_step(ctx: Context, text: str) -> list[int]:
    """Run a step with a large result, wait, and read the result back."""
    kept: str = ctx.step(str.upper, text)
    sent: str = ctx.wait_for("go")
    return [len(kept), len(sent)]


@app.job(isolation="process", retries=0)
def takes_what_a_file_says(ctx: Context, path: str) -> list[str]:
    """Run a step for each word of a file; `fail` fails, `child:…` gathers a job for another such
    file.
    """
    told = []
    for word in Path(path).read_text().split():
        if word == "fail":
            raise Fail("closed", "come back later")
        if word.startswith("child:"):
            child = ctx.spawn("takes_what_a_file_says", word.removeprefix("child:"))
            try:
                ctx.gather(child)
            except JobFailed as error:
                told.append(error.error_code)
        else:
            told.append(ctx.step(str.upper, word, key=word))
    return told
