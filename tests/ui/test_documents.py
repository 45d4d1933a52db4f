"""Documents in the cockpit: a real server takes them in, they are searched, shown and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import PATIENTLY, ROOT, Served, come_in, show
from .lines import run_line
from .pictures import keep

pytestmark = PATIENTLY

PAGES = ("retention", "uploads", "keys-and-tenants", "webhooks", "encryption")
QUESTION = "How long are results kept?"
HOSTILE = "<img src=/v1/nothing onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the surfaces that are installed, with the offline model."""
    served = Served(tmp_path_factory.mktemp("documents"))
    try:
        served.start()
        served.admin = served.make_key("admin")
        yield served
    finally:
        served.stop()


def ingest(served: Served, name: str, content: bytes, collection: str, **fields: str) -> None:
    body: dict[str, Any] = {"collection": collection, **fields}
    job = served.ask("POST", "/v1/ingest", files={"files": (name, content)}, data=body)
    assert served.wait_for_end(job["id"])["state"] == "succeeded"


@pytest.fixture(scope="module")
def manual(served: Served) -> str:
    """Some of the how-tos, as a collection."""
    for name in PAGES:
        page = ROOT / f"docs/how-to/{name}.md"
        ingest(served, page.name, page.read_bytes(), "manual", metadata='{"part": "how-to"}')
    return "manual"


def search(page: Page, text: str, how: str = "hybrid") -> None:
    page.get_by_label("Query").fill(text)
    page.get_by_label("Search mode").select_option(how)
    page.get_by_role("button", name="Search").click()


def test_the_first_document_comes_by_the_line_that_is_shown(door: Page, served: Served) -> None:
    key = served.make_key("jobs:read", "jobs:write", tenant="reader")
    come_in(door, key)
    door.get_by_role("link", name="Collections").click()
    expect(door.get_by_role("heading", name="No documents yet")).to_be_visible()

    assert run_line(door, key).startswith("HTTP/1.1 202")

    documents = door.get_by_role("region", name="Documents")
    expect(documents.get_by_role("row").filter(has_text="README.md")).to_be_visible()
    expect(door.get_by_role("region", name="Collections")).to_contain_text("1 document")


def test_a_question_finds_its_passage(page: Page, served: Served, manual: str) -> None:
    show(page, served, f"collections/{manual}")
    documents = page.get_by_role("region", name="Documents")
    expect(documents.get_by_role("row")).to_have_count(1 + len(PAGES))
    search(page, QUESTION)

    asked = {"q": QUESTION, "k": "10", "mode": "hybrid"}
    found = served.ask("GET", f"/v1/collections/{manual}/search", params=asked)["results"]
    shown = page.get_by_role("article")
    expect(shown).to_have_count(len(found))
    for result, article in zip(found, shown.all(), strict=True):
        assert result["text"] in article.inner_text()
        assert result["document"]["name"] in article.inner_text()
        assert all(heading in article.inner_text() for heading in result["headings"])
    expect(shown.first).to_contain_text("retention.md")
    expect(shown.first).to_contain_text("how-to")
    page.set_viewport_size({"width": 1280, "height": 860})
    keep(page, "collections")
    page.set_viewport_size({"width": 390, "height": 780})
    expect(shown.first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_document_is_deleted_and_not_found_any_more(page: Page, served: Served) -> None:
    for animal in ("otter", "badger"):
        ingest(served, f"{animal}.txt", f"The {animal} sleeps at noon.".encode(), "animals")
    show(page, served, "collections/animals")
    search(page, "otter", "full text")
    expect(page.get_by_role("article")).to_contain_text("The otter sleeps at noon.")

    row = page.get_by_role("row").filter(has_text="otter.txt")
    row.get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete otter.txt?")
    question.get_by_role("button", name="Delete").click()

    expect(row).to_have_count(0)
    search(page, "otter", "full text")
    expect(page.get_by_text("No results.")).to_be_visible()
    search(page, "badger", "full text")
    expect(page.get_by_role("article")).to_contain_text("badger.txt")


def test_what_documents_say_is_text(page: Page, served: Served) -> None:
    content = f"# {HOSTILE}\n\nA marmot says {HOSTILE} and sleeps.".encode()
    metadata = '{"by": "<img src=/v1/nothing onerror=alert(1)>"}'
    ingest(served, "<script>x.md", content, "hostile", metadata=metadata)
    show(page, served, "collections/hostile")
    search(page, "marmot", "full text")

    found = page.get_by_role("article")
    expect(found).to_contain_text(f"A marmot says {HOSTILE}")
    expect(found).to_contain_text("onerror=alert(1)")
    expect(page.get_by_role("region", name="Documents")).to_contain_text("<script>x.md")
    assert page.title() == "Collections · Coatcheck"
    assert page.locator("main script, main img").count() == 0


def test_documents_are_not_for_keys_of_other_kinds(door: Page, served: Served) -> None:
    come_in(door, served.make_key("jobs:read:render"))
    expect(door.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    expect(door.get_by_role("link", name="Collections")).to_have_count(0)


def test_documents_are_read_with_a_key_for_their_kind(
    door: Page, served: Served, manual: str
) -> None:
    come_in(door, served.make_key("jobs:read:ingest.document", "jobs:write:render"))
    show(door, served, f"collections/{manual}")
    rows = door.get_by_role("region", name="Documents").get_by_role("row")
    expect(rows).to_have_count(1 + len(PAGES))
    expect(door.get_by_role("button", name="Delete")).to_have_count(0)


def test_what_only_a_surface_hands_in_is_not_offered(page: Page, served: Served) -> None:
    kinds = {kind["name"] for kind in served.ask("GET", "/v1/kinds")["kinds"]}
    assert "ingest.batch" in kinds
    show(page, served, "try")
    offered = page.get_by_label("Kind", exact=True).locator("option")
    expect(offered.first).to_be_attached()
    assert set(offered.all_inner_texts()) == kinds - {"ingest.batch"}
    show(page, served, "schedules")
    page.get_by_role("button", name="Create schedule").click()
    expect(offered).to_have_count(len(kinds) - 1)
    assert "ingest.batch" not in offered.all_inner_texts()
