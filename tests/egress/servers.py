"""Real servers on this machine, and a name server under a test's control."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Heard:
    """The requests that a server received, and how many connections."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.sni: list[str | None] = []


@contextlib.asynccontextmanager
async def serving(
    answer: bytes | Serve, heard: Heard, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Answer every request with these bytes; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        try:
            if not isinstance(answer, bytes):
                await answer(reader, writer)
                return
            while head := await reader.readuntil(b"\r\n\r\n"):
                heard.requests.append(head)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Names:
    """A name server whose answers change with every lookup."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = answers
        self.asked = 0

    async def __call__(self, _host: str, _port: int) -> list[str]:
        self.asked += 1
        return self._answers[min(self.asked, len(self._answers)) - 1]


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server with this name and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    place = folder / "cert.pem"
    place.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(place)
    return server, ssl.create_default_context(cafile=place)
