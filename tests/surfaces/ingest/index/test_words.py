"""Splitting texts into words, and choosing the words of a search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.surfaces.ingest.index.words import (
    MAX_WORD_LENGTH,
    MAX_WORDS,
    WordChoice,
    query_coverage,
    query_words,
    split_words,
    word_choices,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World_wide web!", ["hello", "world", "wide", "web"]),
        ("Ärger straße İstanbul", ["arger", "strasse", "istanbul"]),
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("Tokyo東京2020", ["tokyo", "東", "京", "東京", "2020"]),
        ("한국어 검색", ["한국어", "검색"]),
        ("नमस्ते दुनिया।", ["नमस्ते", "दुनिया"]),
        ("שָׁלוֹם كِتَاب", ["שלום", "كتاب"]),
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("", []),
    ],
)
def test_split_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.text())
def test_splitting_is_idempotent(text: str) -> None:
    for word in split_words(text):
        assert 0 < len(word) <= MAX_WORD_LENGTH
        assert word.isalnum() or not word.isascii()
        assert not any(letter.isspace() or letter in "'\"\\:" for letter in word)


@given(st.text())
def test_case_does_not_matter(text: str) -> None:
    assert split_words(text.casefold()) == split_words(text)


def test_query_words_are_distinct_and_limited() -> None:
    assert query_words("b a B a") == ["b", "a"]
    assert len(query_words(" ".join(f"w{number}" for number in range(500)))) == MAX_WORDS


def test_rare_words_are_chosen_before_common_ones() -> None:
    assert list(word_choices({}, 10)) == []
    assert list(word_choices({"none": 0}, 10)) == []
    assert list(word_choices({"rare": 3, "common": 11, "none": 0}, 10)) == [
        WordChoice(["rare"], match_all=False)
    ]
    assert list(word_choices({"a": 11, "b": 12}, 10)) == [
        WordChoice(["a", "b"], match_all=True),
        WordChoice(["a", "b"], match_all=False),
    ]


def test_query_coverage() -> None:
    counts = {"the": 99, "kestrel": 1, "unheard": 0}
    assert query_coverage(counts, 100, {"the", "kestrel", "unheard", "more"}) == pytest.approx(1)
    assert query_coverage(counts, 100, {"the"}) < 0.01
    assert 0.4 < query_coverage(counts, 100, {"the", "kestrel"}) < 0.5
    assert query_coverage({}, 100, {"the"}) == 0
