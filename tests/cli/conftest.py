from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import tasks


@pytest.fixture
def app_reference() -> str:
    """What `coatcheck serve` is given to serve the app of these tests."""
    return f"{Path(tasks.__file__)}:app"
