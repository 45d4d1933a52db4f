"""Passages follow a text's structure and have exact offsets."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.surfaces.ingest.chunker import MAX, TARGET, chunk
from coatcheck.surfaces.ingest.document import Chunk, Extracted

SENTENCE = "Every coat gets a ticket with a number of its own, and is found by it. "
FORMATS = ("pdf", "docx", "pptx", "xlsx", "html", "markdown", "text", "email", "code")


def chunk_text(
    text: str, format_: str = "markdown", page_starts: tuple[int, ...] = ()
) -> list[Chunk]:
    extracted = Extracted(format=format_, title="t", text=text, page_starts=page_starts)
    passages = chunk(extracted)
    check_invariants(extracted, passages)
    return passages


def check_invariants(extracted: Extracted, passages: list[Chunk]) -> None:
    """Check the invariants that hold for any text."""
    end = 0
    for ordinal, passage in enumerate(passages):
        assert passage.ordinal == ordinal
        assert passage.text == extracted.text[passage.start : passage.end]
        assert 0 < len(passage.text) <= MAX
        assert passage.text.strip()
        assert passage.page == extracted.page_at(passage.start)
        # no text is missing or in two passages
        assert not extracted.text[end : passage.start].strip()
        assert passage.start >= end
        end = passage.end
    assert not extracted.text[end:].strip()


# Pieces that affect chunking, mixed with arbitrary text.
PIECES = st.sampled_from(
    [
        *("\n", "\n\n", "\r\n", "# ", "## A\n", "### ", "---\n", "===\n", "```\n", "| a | b |\n"),
        *("- ", "1. ", ". ", "。", "def f():\n", "class A {\n", "    ", "}\n", "🏽\u200d"),
        *(SENTENCE, SENTENCE * 20, "x" * 1500),
    ]
)


@given(
    text=st.lists(PIECES | st.text(max_size=40), max_size=40).map("".join),
    format_=st.sampled_from(FORMATS),
    pages=st.lists(st.integers(0, 20_000), max_size=6),
)
def test_any_text_is_covered_by_passages_of_bounded_size(
    text: str, format_: str, pages: list[int]
) -> None:  # I02
    starts = sorted({0, *(page for page in pages if page <= len(text))}) if pages else ()
    passages = chunk_text(text, format_, tuple(starts))
    if format_ in ("pptx", "xlsx"):
        for passage in passages:
            assert not any(passage.start < start < passage.end for start in starts)


def test_a_short_text_is_one_passage() -> None:
    assert [passage.text for passage in chunk_text("\n Just this. \n\n And that.\n")] == [
        "Just this. \n\n And that."
    ]
    assert chunk_text(" \n ") == []


def test_sections_are_cut_at_headings_and_list_those_above() -> None:
    body = SENTENCE * 8
    text = f"# House\n\n## Door\n\n{body}\n\n### Lost\n\n{body}\n\n{body}\n\n## Bar\n\n{body}"
    passages = chunk_text(text)
    assert [(passage.text.split("\n")[0][:9], passage.headings) for passage in passages] == [
        ("# House", ()),
        ("### Lost", ("House", "Door")),
        ("Every coa", ("House", "Door", "Lost")),
        ("## Bar", ("House",)),
    ]
    assert passages[0].text.startswith("# House\n\n## Door\n\nEvery")


def test_small_sections_are_joined_only_under_the_same_heading() -> None:
    body = SENTENCE * 13
    text = f"# A\n\n## A1\n\n{body}\n\n### A2\n\nshort\n\n# B\n\n{body}"
    assert [(p.text[:5], p.text[-6:], p.headings) for p in chunk_text(text)] == [
        ("# A\n\n", "\nshort", ()),
        ("# B\n\n", "by it.", ()),
    ]


def test_underlined_headings_count_but_fenced_code_does_not() -> None:
    body = SENTENCE * 10
    text = f"Top\n===\n\n{body}\n\nSecond\n---\n\n{body}\n\n```sh\n# no heading\n```\n\n{body}"
    passages = chunk_text(text)
    assert [passage.headings for passage in passages] == [(), ("Top",), ("Top", "Second")]


def test_plain_text_has_no_headings() -> None:
    text = f"# a comment\n\n{SENTENCE * 20}"
    assert {passage.headings for passage in chunk_text(text, "text")} == {()}


def test_paragraphs_that_fit_stay_whole() -> None:
    paragraphs = [SENTENCE * 5] * 8
    for passage in chunk_text("\n\n".join(paragraphs)):
        assert set(passage.text.split("\n\n")) <= {SENTENCE * 5, (SENTENCE * 5).strip()}


def test_long_paragraphs_are_cut_between_sentences_across_lines() -> None:
    lines = (SENTENCE * 60).split(" ")
    wrapped = "\n".join(" ".join(lines[at : at + 9]) for at in range(0, len(lines), 9))
    passages = chunk_text(wrapped, "text")
    assert len(passages) > 3
    assert all(passage.text.endswith("by it.") for passage in passages)
    assert all(len(passage.text) > TARGET * 3 // 4 for passage in passages[:-1])


def test_sentences_of_other_scripts_are_recognized() -> None:
    passages = chunk_text("外套在门口寄存，每件都有自己的号码。" * 200, "text")
    assert len(passages) > 2
    assert all(passage.text.endswith("。") for passage in passages)


def test_text_without_spaces_is_not_cut_within_a_grapheme() -> None:
    passages = chunk_text("e\u0301" * 2000, "text")
    assert all(len(passage.text) % 2 == 0 for passage in passages)


def test_table_rows_stay_whole_and_have_the_header_row() -> None:
    rows = "\n".join(f"| coat {number} | blue | {SENTENCE.strip()} |" for number in range(40))
    passages = chunk_text(f"# List\n\n| Name | Colour | Note |\n{rows}\n\n{SENTENCE * 3}", "docx")
    assert passages[0].headings == ()
    assert passages[1].headings == ("List", "Name | Colour | Note")
    assert passages[-1].headings[:1] == ("List",)
    for passage in passages[:-1]:
        assert passage.text.endswith("|")


def test_passage_has_the_page_it_begins_on() -> None:
    first, second = SENTENCE * 10, SENTENCE * 10
    passages = chunk_text(f"{first}\n\n{second}", "pdf", (0, len(first) + 2))
    assert [passage.page for passage in passages] == [1, 2]


def test_slides_share_neither_passages_nor_headings() -> None:
    text = "# One\n\nshort\n\nno title\n\n# Three"
    passages = chunk_text(text, "pptx", (0, text.index("no"), text.index("# Three")))
    assert [(passage.page, passage.text, passage.headings) for passage in passages] == [
        (1, "# One\n\nshort", ()),
        (2, "no title", ()),
        (3, "# Three", ()),
    ]


def test_code_is_cut_between_definitions() -> None:
    function = dedent("""\
        @decorated
        def number_{n}(coat):
            ticket = coat.ticket

            return ticket.number


        """)
    code = "".join(function.format(n=n) * 1 for n in range(60))
    passages = chunk_text(code, "code")
    assert len(passages) > 3
    for passage in passages:
        assert passage.text.startswith("@decorated")
        assert passage.text.endswith("return ticket.number")


def test_code_within_a_class_keeps_its_indentation_and_class_line() -> None:
    method = "    def take(self, coat):\n        put(coat)  # {}\n\n        return 1\n\n"
    code = "class Rack(Base):\n" + "".join(method.format("x" * 150) for _ in range(12))
    passages = chunk_text(f"{code}\nprint(Rack)\n", "code")
    assert passages[0].headings == ()
    assert passages[1].headings == ("class Rack(Base):",)
    assert all(passage.text.startswith("    def take") for passage in passages[1:])


def test_heading_with_endless_spaces_takes_linear_time() -> None:
    blanks = " " * 200_000
    chunk_text(f"# a{blanks}b{blanks}#\n\n|{blanks}|\n|{blanks}|\n\na.{blanks}b")


@pytest.mark.parametrize(
    "piece",
    ["\n", " ", "#", "# a\n", "|\n", "`", "```\n", ". ", "!", "a.\n", "- ", "\n \n", "a\n---\n"],
)
def test_endless_repetition_is_chunked(piece: str) -> None:
    chunk_text(piece * 20_000)
    chunk_text(piece * 20_000, "code")
