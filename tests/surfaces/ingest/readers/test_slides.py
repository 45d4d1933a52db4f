"""PPTX: slide by slide."""

from __future__ import annotations

from pathlib import Path

import pytest
from pptx.presentation import Presentation
from pptx.util import Inches

from coatcheck.surfaces.ingest.chunker import chunk

from .documents import reading, refusal, slides, with_part


def fill(presentation: Presentation) -> None:
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    assert first.shapes.title is not None
    first.shapes.title.text = "The cloakroom"
    first.placeholders[1].text_frame.text = "Coats are taken\nHats too"
    notes = first.notes_slide.notes_text_frame
    assert notes is not None
    notes.text = "Say it slowly."
    second = presentation.slides.add_slide(presentation.slide_layouts[6])
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "In a group"
    table = second.shapes.add_table(2, 2, 0, 0, Inches(2), Inches(2)).table
    for place, text in enumerate(("What", "Price", "Coat", "3")):
        table.cell(place // 2, place % 2).text = text


def test_titles_texts_groups_tables_and_notes_are_read_by_slide(tmp_path: Path) -> None:  # I02
    found = reading(tmp_path, slides(fill), "talk.pptx")
    assert (found.format, found.title) == ("pptx", "The cloakroom")
    first, second = found.text[: found.page_starts[1]], found.text[found.page_starts[1] :]
    assert first == (
        "# The cloakroom\n\n- Coats are taken\n- Hats too\n\nNotes: Say it slowly.\n\n"
    )
    assert second == "In a group\n\n| What | Price |\n| Coat | 3 |"


def test_a_passage_is_of_one_slide(tmp_path: Path) -> None:
    passages = chunk(reading(tmp_path, slides(fill)))
    assert [(passage.page, passage.headings) for passage in passages] == [(1, ()), (2, ())]


@pytest.mark.parametrize("broken", [b"<other/>", b"<open>", b"no XML at all"])
def test_a_damaged_slide_never_loses_the_rest(tmp_path: Path, broken: bytes) -> None:  # I02
    content = with_part(slides(fill), "ppt/slides/slide1.xml", lambda _: broken)
    found = reading(tmp_path, content)
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
def test_what_is_damaged_beside_the_slides_loses_none(tmp_path: Path, part: str) -> None:
    found = reading(tmp_path, with_part(slides(fill), part, lambda _: b"<open>"))
    assert found.text.startswith("# The cloakroom")
    assert found.text.endswith("| What | Price |\n| Coat | 3 |")


def test_slides_that_are_all_damaged_are_damage(tmp_path: Path) -> None:
    content = slides(fill)
    for number in (1, 2):
        content = with_part(content, f"ppt/slides/slide{number}.xml", lambda _: b"<other/>")
    code, message = refusal(tmp_path, content)
    assert code == "document-damaged"
    assert message == "the PPTX file is damaged: none of 2 slides can be read"


def test_slides_without_text_have_none(tmp_path: Path) -> None:
    def empty(presentation: Presentation) -> None:
        presentation.slides.add_slide(presentation.slide_layouts[6])

    assert refusal(tmp_path, slides(empty))[0] == "document-no-text"
