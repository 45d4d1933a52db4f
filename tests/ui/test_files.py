"""The files of the cockpit, as they are given out."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.ui.pages import Cockpit
from tests.http.arrange import connect
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

STATIC = Path(__file__).resolve().parents[2] / "src/coatcheck/ui/static"
OURS = [path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def asked(cockpit: Cockpit, folder: Path, *paths: str) -> list[httpx2.Response]:
    store = SQLiteStore(folder / "jobs.db")
    await store.open()
    app = create_http_app(Engine(store, {}), pages=False, cockpit=cockpit.endpoints)
    async with connect(app) as http:
        answers = [await http.get(path) for path in paths]
    await store.close()
    return answers


async def test_the_page_loads_nothing_but_this_server_s_files_and_nothing_inline(
    tmp_path: Path,
) -> None:
    [page] = await asked(Cockpit(), tmp_path, "/ui")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert re.search(r"<script(?![^>]* src=)|<style| on\w+=| style=", page.text) is None
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    answers = await asked(Cockpit(), tmp_path, "/ui/", *links)
    assert [answer.status_code for answer in answers] == [200] * (len(links) + 1)
    for answer in answers[1:]:
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_every_module_that_is_imported_is_there(tmp_path: Path) -> None:
    cockpit = Cockpit()
    wanted = set()
    for path in OURS:
        for found in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            file = (path.parent / found).resolve().relative_to(STATIC)
            wanted.add(f"/ui/{cockpit.release}/{file.as_posix()}")
    assert len(wanted) > 30

    for answer in await asked(cockpit, tmp_path, *sorted(wanted)):
        assert answer.status_code == 200, answer.url
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("name", ["pages.py", "../pages.py", "..%2fpages.py", "vendor", "", "x.js"])
async def test_no_other_file_is_given_out(tmp_path: Path, name: str) -> None:
    cockpit = Cockpit()
    [answer] = await asked(cockpit, tmp_path, f"/ui/{cockpit.release}/{name}")
    read_problem(answer, 404, "not-found")
    [answer] = await asked(cockpit, tmp_path, "/ui/0123456789abcdef/main.js")
    read_problem(answer, 404, "not-found")


async def test_where_the_parts_of_others_are_missing_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static/index.html").write_text("<p>{release}")
    [page] = await asked(Cockpit(tmp_path / "static"), tmp_path, "/ui")
    assert "make setup" in read_problem(page, 404, "not-found")["detail"]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_our_files_put_text_in_as_text_and_name_no_other_server(path: Path) -> None:
    text = path.read_text()
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "cookie")
    for way in (*ways, "dangerouslySetInnerHTML", "new Function"):
        assert way not in text.replace("no cookie", "")
    named = set(re.findall(r"https?://[\w.]+", text))
    assert named <= {"http://www.w3.org", "https://example.com"}
