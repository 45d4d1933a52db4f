"""The suite for stores is whole: no test of it hides another."""

from __future__ import annotations

from collections import Counter

from coatcheck.testing.conformance import StoreConformance


def test_each_test_of_a_store_has_a_name_of_its_own() -> None:
    names = Counter(
        name for part in StoreConformance.__mro__ for name in vars(part) if name.startswith("test")
    )
    assert [name for name, times in names.items() if times > 1] == []
