"""The example of the README runs and prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import coatcheck.codegraph

README = Path(coatcheck.codegraph.__file__).with_name("README.md")


def test_example_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, str(README), "exec"), {})
    (promised,) = re.findall(r"The output contains `(.*?)`", text)
    assert promised in capsys.readouterr().out.splitlines()
