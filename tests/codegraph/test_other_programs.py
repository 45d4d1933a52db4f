from __future__ import annotations

import pytest

from tests.codegraph.ground_truth import Program, programs

LANGUAGES = ("javascript", "java", "go")
# Resolved by scopes alone.
TAGGED = ("rust", "c", "cpp", "csharp", "ruby", "php")
OTHERS = [program for language in LANGUAGES + TAGGED for program in programs(language)]


@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.name)
def test_analysis_finds_exactly_the_expected_calls(program: Program) -> None:
    assert sorted(program.found()) == sorted(program.expected())


def test_every_language_has_ten_programs() -> None:
    assert all(len(programs(language)) >= 10 for language in LANGUAGES)
