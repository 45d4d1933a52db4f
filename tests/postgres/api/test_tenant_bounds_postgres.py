"""The bounds on queue names, on PostgreSQL."""

from tests.http.test_tenant_bounds import (
    engine,
    pytestmark,
    test_a_tenant_uses_a_bounded_number_of_queues,
    test_another_process_counts_what_is_there_and_forgets_what_is_gone,
    test_queues_are_listed_in_pages,
)

__all__ = [
    "engine",
    "pytestmark",
    "test_a_tenant_uses_a_bounded_number_of_queues",
    "test_another_process_counts_what_is_there_and_forgets_what_is_gone",
    "test_queues_are_listed_in_pages",
]
