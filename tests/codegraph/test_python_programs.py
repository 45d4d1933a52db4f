from __future__ import annotations

import pytest

from tests.codegraph.ground_truth import Program, programs
from tests.codegraph.runner import calls_when_run

PYTHON = programs("python")


@pytest.mark.parametrize("program", PYTHON, ids=lambda program: program.name)
def test_analysis_finds_exactly_the_expected_calls(program: Program) -> None:
    assert sorted(program.found()) == sorted(program.expected())


@pytest.mark.parametrize(
    "program",
    [program for program in PYTHON if program.can_run and (program.folder / "main.py").exists()],
    ids=lambda program: program.name,
)
def test_expected_calls_include_every_call_of_a_run(program: Program) -> None:
    assert calls_when_run(program.folder) - program.expected() == set()


def test_every_feature_has_three_programs() -> None:
    features = {program.feature for program in PYTHON}
    few = {
        feature: [p.name for p in PYTHON if p.feature == feature]
        for feature in features
        if sum(p.feature == feature for p in PYTHON) < 3
    }
    assert few == {}
