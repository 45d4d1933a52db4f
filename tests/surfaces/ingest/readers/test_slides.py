"""Reading PPTX slide by slide."""

from __future__ import annotations

from pathlib import Path

import pytest
from pptx.presentation import Presentation

from coatcheck.surfaces.ingest.chunker import chunk

from .documents import fill_slides, read_content, read_error, slides, with_part


def test_titles_texts_groups_tables_and_notes_are_read_by_slide(tmp_path: Path) -> None:  # I02
    found = read_content(tmp_path, slides(fill_slides), "talk.pptx")
    assert (found.format, found.title) == ("pptx", "The cloakroom")
    first, second = found.text[: found.page_starts[1]], found.text[found.page_starts[1] :]
    assert first == (
        "# The cloakroom\n\n- Coats are taken\n- Hats too\n\nNotes: Say it slowly.\n\n"
    )
    assert second == "In a group\n\n| What | Price |\n| Coat | 3 |"


def test_passage_does_not_span_slides(tmp_path: Path) -> None:
    passages = chunk(read_content(tmp_path, slides(fill_slides)))
    assert [(passage.page, passage.headings) for passage in passages] == [(1, ()), (2, ())]


@pytest.mark.parametrize("broken", [b"<other/>", b"<open>", b"no XML at all"])
def test_damaged_slide_does_not_lose_the_rest(tmp_path: Path, broken: bytes) -> None:  # I02
    content = with_part(slides(fill_slides), "ppt/slides/slide1.xml", lambda _: broken)
    found = read_content(tmp_path, content)
    assert [(problem.page, problem.reason) for problem in found.problems] == [
        (1, "this slide is damaged")
    ]
    assert found.text.startswith("In a group")
    assert found.page_at(0) == 2


@pytest.mark.parametrize(
    "part",
    [
        "docProps/core.xml",
        "ppt/theme/theme1.xml",
        "ppt/slides/_rels/slide2.xml.rels",
        "ppt/slideLayouts/slideLayout7.xml",
        "ppt/slideLayouts/_rels/slideLayout7.xml.rels",
    ],
)
def test_damaged_other_parts_lose_no_slide(tmp_path: Path, part: str) -> None:
    found = read_content(tmp_path, with_part(slides(fill_slides), part, lambda _: b"<open>"))
    assert found.text.startswith("# The cloakroom")
    assert found.text.endswith("| What | Price |\n| Coat | 3 |")


def test_all_slides_damaged_is_damage(tmp_path: Path) -> None:
    content = slides(fill_slides)
    for number in (1, 2):
        content = with_part(content, f"ppt/slides/slide{number}.xml", lambda _: b"<other/>")
    code, message = read_error(tmp_path, content)
    assert code == "document-damaged"
    assert message == "the PPTX file is damaged: none of 2 slides can be read"


def test_slides_without_text(tmp_path: Path) -> None:
    def empty(presentation: Presentation) -> None:
        presentation.slides.add_slide(presentation.slide_layouts[6])

    assert read_error(tmp_path, slides(empty))[0] == "document-no-text"
