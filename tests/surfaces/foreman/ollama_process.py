"""An upstream in a process of its own, so that a test can kill or pause it in the middle of a call.

Run as `python -m tests.surfaces.foreman.ollama_process PORT STALLS RESIDENT`: it begins to answer
the first STALLS calls and never ends those answers, then it answers completely. It prints `ready`,
and `called` once the beginning of such an answer is sent.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from tests.surfaces.foreman.faulty import Faulty, Stall, answering

CHAT_ANSWER = json.dumps(
    {"model": "tiny", "message": {"role": "assistant", "content": "hi"}, "done": True}
).encode()
HALF = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
# A lost reader would block a process for good: no test takes this long.
LIFETIME_S = 300


class OllamaProcess:
    """A handle on the process."""

    def __init__(self, port: int, stalls: int, *, resident: bool) -> None:
        arguments = [str(port), str(stalls), str(int(resident))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.surfaces.foreman.ollama_process", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )

    async def expect(self, line: str) -> None:
        """Wait until the process prints a line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            assert (await asyncio.to_thread(self._process.stdout.readline)).strip() == line

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it, as a power cut would, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class _StallingOllama(Faulty):
    def __init__(self, port: int, stalls: int, *, resident: bool) -> None:
        super().__init__(self._next)
        self.port = port
        self._stalls = stalls
        self._resident = resident

    def _probe(self, path: str) -> bytes:
        if path == "/api/ps" and not self._resident:
            return b'{"models":[]}'
        return super()._probe(path)

    def _next(self, _body: dict[str, Any]) -> bytes | Stall:
        if self._stalls:
            self._stalls -= 1
            print("called", flush=True)
            return Stall(HALF)
        return answering(200, CHAT_ANSWER)


async def _main(port: int, stalls: int, *, resident: bool) -> None:
    await _StallingOllama(port, stalls, resident=resident).start()
    print("ready", flush=True)
    await asyncio.sleep(LIFETIME_S)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), resident=sys.argv[3] == "1"))
