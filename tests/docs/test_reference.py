"""The reference says what the code says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from coatcheck.cli.main import cli
from coatcheck.settings import PREFIX, Settings

from .pages import PAGES, ROOT, local_links


def test_every_setting_is_there_with_its_default() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    defaults = dataclasses.asdict(Settings())
    assert set(rows) == {PREFIX + name.upper() for name in defaults}
    for name, default in defaults.items():
        shown = rows[PREFIX + name.upper()].strip("`")
        assert type(default)("" if shown == "none" else shown) == default, name


def test_every_command_is_there() -> None:
    text = (ROOT / "docs/reference/command-line.md").read_text()
    assert set(re.findall(r"^\| `coatcheck (\w+)", text, re.MULTILINE)) == set(cli.commands)


def test_every_error_type_of_the_api_is_there() -> None:
    text = (ROOT / "docs/reference/http.md").read_text()
    source = (ROOT / "src/coatcheck/errors.py").read_text()
    listed = set(re.findall(r"urn:coatcheck:([\w-]+)", text))
    for code in ("not-found", "gone", "unknown-kind", "invalid-payload", "store-unavailable"):
        assert code in listed
        assert f'code = "{code}"' in source


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_local_link_leads_somewhere(page: Path) -> None:
    for link in local_links(page):
        assert (page.parent / link).exists(), f"{page.name}: {link}"
