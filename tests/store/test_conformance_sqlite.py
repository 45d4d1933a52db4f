"""SQLite keeps every promise of the Store protocol."""

from coatcheck.testing.conformance import StoreConformance


class TestSQLiteStore(StoreConformance):
    """The fixture `store` is in conftest.py."""
