"""Domains named by somebody else, where the operator wants that."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.graphs import settings
from coatcheck.surfaces.graphs.domain_names import ask_for_name, tidied
from coatcheck.surfaces.graphs.domains import Domain, renamed
from coatcheck.surfaces.graphs.settings import GraphSettings, NamingSettings

from .conftest import Serve
from .zips import zipped


class Endpoint:
    """A model that says what it is told to."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status, self.says = 200, ' "Buying and Selling".\nBecause of the paths. '
        endpoint = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                endpoint.asked.append({"path": self.path, **json.loads(self.rfile.read(length))})
                endpoint.keys.append(self.headers["authorization"])
                said = {"choices": [{"message": {"role": "assistant", "content": endpoint.says}}]}
                body = json.dumps(said).encode()
                self.send_response(endpoint.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.mark.anyio
async def test_a_model_is_asked_by_paths_alone_and_once(serve: Serve, endpoint: Endpoint) -> None:
    environment = {
        settings.NAMING_URL: endpoint.url,
        settings.NAMING_MODEL: "small",
        settings.NAMING_KEY: "sesame",
    }
    async with serve(environment) as graphs:  # G39
        said = await graphs.ended("domain", zipped())
        assert [each["name"] for each in said["result"]["domains"]] == ["Buying and Selling"]
        [asked] = endpoint.asked
        assert (asked["path"], asked["model"]) == ("/v1/chat/completions", "small")
        assert endpoint.keys == ["Bearer sesame"]
        paths = asked["messages"][1]["content"].splitlines()
        assert paths == ["shop/__init__.py", "shop/prices.py", "shop/till.py"]
        [step] = await graphs.engine.steps(said["jobId"])
        assert (step.id.name, step.result) == ("name_domain", '"Buying and Selling"')


@pytest.mark.parametrize(("status", "says"), [(500, "x"), (200, ""), (200, "x" * 500)])
def test_what_cannot_be_had_is_no_name(endpoint: Endpoint, status: int, says: str) -> None:
    endpoint.status, endpoint.says = status, says
    naming = NamingSettings(endpoint.url.rstrip("/"), "small")
    assert asyncio.run(ask_for_name(["a.py"], naming)) == ""
    nobody = NamingSettings("http://127.0.0.1:9", "small")
    assert asyncio.run(ask_for_name(["a.py"], nobody)) == ""


def test_a_domain_without_another_name_keeps_its_own() -> None:
    domains = [Domain(f"domain-{n}", f"folder-{n}", (), (), ()) for n in range(2)]
    assert [each.name for each in renamed(domains, ["Cart", ""])] == ["Cart", "folder-1"]


@pytest.mark.parametrize(
    ("said", "name"),
    [("Cart", "Cart"), ('**"Cart"**', "Cart"), ("\n\n", ""), ("a\x1b[31mb", "a[31mb")],
)
def test_names_are_tidied(said: str, name: str) -> None:
    assert tidied(said) == name


def test_settings() -> None:  # G17, G18, G19, G20
    plain = GraphSettings.read({})
    assert (plain.archive_hours, plain.completed_hours, plain.failed_days) == (1, 24, 7)
    assert plain.naming is None
    read = GraphSettings.read(
        {
            "SUPERMODEL_JOB_TTL_BLOB_HOURS": "2",
            "SUPERMODEL_JOB_TTL_COMPLETED_HOURS": "3",
            "SUPERMODEL_JOB_TTL_FAILED_DAYS": "4",
            settings.MEMORY: "1GB",
        }
    )
    assert (read.archive_hours, read.completed_hours, read.failed_days) == (2, 3, 4)
    assert read.memory == 1_000_000_000
    for name in ("SUPERMODEL_JOB_TTL_BLOB_HOURS", settings.MEMORY):
        with pytest.raises(ConfigurationError, match=name):
            GraphSettings.read({name: "none"})


def test_settings_of_an_endpoint() -> None:
    for url in ("ftp://x", "here", "http://"):
        with pytest.raises(ConfigurationError, match=settings.NAMING_URL):
            NamingSettings.read({settings.NAMING_URL: url})
    with pytest.raises(ConfigurationError, match=settings.NAMING_MODEL):
        NamingSettings.read({settings.NAMING_URL: "http://x"})
    read = NamingSettings.read(
        {settings.NAMING_URL: "http://x", settings.NAMING_MODEL: "m", settings.NAMING_KEY: "secret"}
    )
    assert "secret" not in repr(read)
