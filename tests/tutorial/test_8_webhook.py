"""Webhook: the server notifies a URL when a job finishes, with a signature."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from threading import Thread
from typing import NamedTuple

from standardwebhooks import Webhook

from coatcheck import Client


class Notification(NamedTuple):
    headers: dict[str, str]
    body: bytes


@contextmanager
def receiver() -> Iterator[tuple[str, Queue[Notification]]]:
    received: Queue[Notification] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.put(Notification(headers, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", received
        finally:
            server.shutdown()
            thread.join()


def test_a_job_notifies_its_webhook_when_it_finishes(client: Client) -> None:
    with receiver() as (url, received):
        handle = client.submit("greet", "ada", webhook=url)
        notification = received.get(timeout=30)

    message = json.loads(notification.body)
    assert message["type"] == "job.succeeded"
    assert message["data"]["id"] == handle.id


def test_the_signature_proves_the_sender(client: Client) -> None:
    with receiver() as (url, received):
        client.submit("greet", "ada", webhook=url)
        notification = received.get(timeout=30)

    secret = client.webhooks.secret()
    Webhook(secret).verify(notification.body.decode(), notification.headers)
