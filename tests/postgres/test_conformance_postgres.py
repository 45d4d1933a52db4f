"""PostgreSQL keeps every promise of the Store protocol, to the letter of the first store."""

from coatcheck.testing.conformance import StoreConformance


class TestPostgresStore(StoreConformance):
    """The fixture `store` is in conftest.py."""
