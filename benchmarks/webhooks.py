"""Webhooks: how fast one process drains the outbox.

    python -m benchmarks.webhooks [messages] [receivers]

Jobs finish, each with a delivery per receiver. One dispatcher delivers all of them to servers in
another process, which answer 204 at once: this measures claiming, signing, sending and recording.
For comparison, the rate of the same requests alone, and how long another receiver's first message
takes while 10,000 wait for one that never answers.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from coatcheck import App, Context
from coatcheck.egress.outbound import OutboundClient
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.webhook import new_secret, signature
from coatcheck.store.sqlite.store import SQLiteStore

AT_ONCE = 32
WAITING = 10_000  # for the receiver that never answers

app = App()


@app.job
async def nothing(ctx: Context) -> None: ...


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    receivers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_receive, args=(theirs, receivers), daemon=True)
    process.start()
    ports = ours.recv()
    try:
        asyncio.run(_measure(messages, ports))
    finally:
        process.terminate()


async def _measure(messages: int, ports: list[int]) -> None:
    bare, cpu = await _bare(messages // 2, ports[1])
    print(f"the same requests alone:        {bare:7,.0f}/s, {cpu * 1000:.2f} ms of CPU each")
    for count in (1, len(ports) - 1):
        rate, cpu = await _fan_out(messages // count, ports[1 : 1 + count])
        told = f"{rate:7,.0f}/s ({rate / bare:.0%}), {cpu * 1000:.2f} ms of CPU each"
        print(f"delivered to {count} receiver(s):     {told}", flush=True)
    first = await _beside_dead(WAITING, ports)
    print(f"another's first message, beside {WAITING:,} for a dead one: {first * 1000:.0f} ms")


async def _bare(requests: int, port: int) -> tuple[float, float]:
    outbound = OutboundClient(EgressPolicy("127.0.0.1"))
    secret, body = new_secret(), b'{"type":"job.succeeded"}' * 10

    async def send_some() -> None:
        for number in range(requests // AT_ONCE):
            signed = signature([secret], f"msg_{number}", 1, body)
            headers = {"webhook-id": f"msg_{number}", "webhook-signature": signed}
            url = f"http://127.0.0.1:{port}/"
            await outbound.send("POST", url, headers, body, timeout_s=15, most_bytes=100)

    start, busy = time.monotonic(), time.process_time()
    await asyncio.gather(*(send_some() for _ in range(AT_ONCE)))
    took, busy = time.monotonic() - start, time.process_time() - busy
    await outbound.close()
    return requests / took, busy / requests


async def _fan_out(jobs: int, ports: list[int]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        engine = await _engine(folder)
        for port in ports:
            await engine.webhooks.create(WebhookSpec(f"http://127.0.0.1:{port}/"))
        await _end_jobs(engine, [Submission("nothing")] * jobs)
        start, busy = time.monotonic(), time.process_time()
        await engine.dispatcher.deliver_due()
        took, busy = time.monotonic() - start, time.process_time() - busy
        await engine.dispatcher.close()
        await engine.store.close()
    return jobs * len(ports) / took, busy / (jobs * len(ports))


async def _beside_dead(jobs: int, ports: list[int]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        engine = await _engine(folder)
        dead = WebhookSpec(f"http://127.0.0.1:{ports[0]}/")
        await _end_jobs(engine, [Submission("nothing", webhook=dead)] * jobs)
        sending = asyncio.create_task(engine.dispatcher.run())
        await asyncio.sleep(1)  # the dispatcher is busy with the dead receiver
        alive = WebhookSpec(f"http://127.0.0.1:{ports[1]}/")
        job = await engine.submit(Submission("nothing", webhook=alive))
        start = time.monotonic()
        await engine.cancel(job.id)
        while (await engine.webhooks.delivery(f"{job.id}.2")).state != "delivered":  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        took = time.monotonic() - start
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await engine.store.close()
    return took


async def _engine(folder: str) -> Engine:
    store = SQLiteStore(Path(folder) / "jobs.db")
    await store.open()
    return Engine(store, app.kinds, egress=EgressPolicy("127.0.0.1"))


async def _end_jobs(engine: Engine, submissions: list[Submission]) -> None:
    jobs = await engine.insert_batch(submissions)
    for at in range(0, len(jobs), 200):
        await asyncio.gather(*(engine.cancel(job.id) for job in jobs[at : at + 200]))


def _receive(pipe: Connection, receivers: int) -> None:
    asyncio.run(_serve(pipe, receivers))


async def _serve(pipe: Connection, receivers: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await asyncio.sleep(3600)

    servers = [await asyncio.start_server(never, "127.0.0.1", 0)]
    servers += [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(receivers)]
    pipe.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.sleep(3600)


if __name__ == "__main__":
    main()
