"""`GET /docs`: a page that needs nothing but this server."""

from __future__ import annotations

import re

import httpx2
import pytest

from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


async def test_the_page_and_its_parts_come_from_here_alone(http: httpx2.AsyncClient) -> None:
    page = await http.get("/docs", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")

    links = set(re.findall(r'(?:src|href)="([^"]+)"', page.text))
    assert {"/docs/docs.css", "/docs/docs.js", "/openapi.json"} <= links
    for link in links:
        assert link.startswith("/"), "another server may not be reachable"
        assert (await http.get(link)).status_code == 200
    for name in ("docs.js", "docs.css"):
        text = (await http.get(f"/docs/{name}")).text
        assert "http://" not in text
        assert "https://" not in text


async def test_nothing_from_elsewhere_and_nothing_inline_would_run(
    http: httpx2.AsyncClient,
) -> None:
    page = await http.get("/docs")

    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.search(r"<script(?![^>]* src=)|<style| on\w+=| style=", page.text) is None
    for path, media in (("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css")):
        answer = await http.get(path)
        assert answer.headers["content-type"].startswith(media)
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_the_script_puts_text_in_as_text(http: httpx2.AsyncClient) -> None:
    script = (await http.get("/docs/docs.js")).text

    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in script


@pytest.mark.parametrize("name", ["x.js", "docs.html", "..%2Fapp.py", "../routes.py", "%00"])
async def test_no_other_file_is_given_out(http: httpx2.AsyncClient, name: str) -> None:
    read_problem(await http.get(f"/docs/{name}"), 404, "not-found")
