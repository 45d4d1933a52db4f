"""The reference agrees with the code."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path

import httpx2
import pytest

from coatcheck.cli.main import COMMANDS
from coatcheck.engine import explain
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.errors import CODES, STATUS
from coatcheck.http.routes import ENDPOINTS
from coatcheck.settings import PREFIX, Settings
from coatcheck.store.sqlite.store import SQLiteStore

from .pages import PAGES, ROOT, local_links


def test_every_setting_is_listed_with_its_default() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    defaults = dataclasses.asdict(Settings())
    assert set(rows) == {PREFIX + name.upper() for name in defaults}
    for name, default in defaults.items():
        shown = rows[PREFIX + name.upper()].strip("`")
        assert type(default)("" if shown == "none" else shown) == default, name


def test_every_command_is_listed() -> None:
    text = (ROOT / "docs/reference/command-line.md").read_text()
    assert set(re.findall(r"^\| `coatcheck ([\w-]+)", text, re.MULTILINE)) == set(COMMANDS)


def test_every_endpoint_is_listed() -> None:
    text = (ROOT / "docs/reference/http.md").read_text()
    listed = set(re.findall(r"`((?:GET|POST|PUT|DELETE) /[^`]*)`", text))
    shown = [endpoint for endpoint in ENDPOINTS if not endpoint.hidden]
    assert {f"{endpoint.method} {endpoint.path}" for endpoint in shown} <= listed


def test_every_error_type_is_listed() -> None:
    text = (ROOT / "docs/reference/http.md").read_text()
    listed = set(re.findall(r"urn:coatcheck:([\w-]+)", text))
    raised = {kind.code for kind, _ in STATUS} | set(CODES.values())
    said = {"not-loopback", "internal", "job-failed", "job-cancelled", "stale-lease"}
    said |= {"range-not-satisfiable", "too-many-connections"}
    assert listed == raised | said


def test_every_hold_reason_is_listed() -> None:
    text = (ROOT / "docs/reference/http.md").read_text()
    section = text[text.index("`?explain=1` adds") : text.index("## Steps")]
    listed = re.findall(r"^\| \w* ?\| `([\w-]+)` \|", section, re.MULTILINE)
    said = re.findall(r'HoldReason\(\s*"([\w-]+)"', Path(explain.__file__).read_text())
    assert sorted(listed) == sorted(said)


def test_every_metric_is_listed(tmp_path: Path) -> None:
    async def scrape() -> str:
        store = SQLiteStore(tmp_path / "jobs.db")
        await store.open()
        app = create_http_app(Engine(store, {}))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.get("/metrics")
        await store.close()
        return answer.text

    shown = set(re.findall(r"^# TYPE (\w+)", asyncio.run(scrape()), re.MULTILINE))
    text = (ROOT / "docs/reference/http.md").read_text()
    assert set(re.findall(r"`(coatcheck_\w+)", text)) == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_local_links_exist(page: Path) -> None:
    for link in local_links(page):
        assert (page.parent / link).exists(), f"{page.name}: {link}"
