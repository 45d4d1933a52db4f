"""Tasks on PostgreSQL, where there are replicas."""

from tests.mcp.test_tasks import (
    pytestmark,
    test_a_call_is_a_task_at_once_and_ends_with_the_result,
    test_a_call_repeated_under_its_key_is_one_task,
    test_a_task_is_cancelled,
    test_any_replica_knows_the_task,
    test_what_is_no_task_is_not_found,
)

__all__ = [
    "pytestmark",
    "test_a_call_is_a_task_at_once_and_ends_with_the_result",
    "test_a_call_repeated_under_its_key_is_one_task",
    "test_a_task_is_cancelled",
    "test_any_replica_knows_the_task",
    "test_what_is_no_task_is_not_found",
]
