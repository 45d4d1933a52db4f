"""Sizes as people write them."""

from __future__ import annotations

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.model.size import in_megabytes, size_in_bytes


@pytest.mark.parametrize(
    ("written", "size"),
    [(1024, 1024), ("512MB", 512_000_000), ("1.5 GB", 1_500_000_000), ("2MiB", 2_097_152)],
)
def test_sizes(written: int | str, size: int) -> None:
    assert size_in_bytes(written, "memory") == size


@pytest.mark.parametrize("written", ["much", "512", "-1MB", "1TB", 0, -5, "0MB"])
def test_what_is_no_size(written: int | str) -> None:
    with pytest.raises(ConfigurationError, match=r"^memory"):
        size_in_bytes(written, "memory")


def test_sizes_for_people() -> None:
    assert (in_megabytes(512_000_000), in_megabytes(1_500_000_000)) == ("512 MB", "1.5 GB")
