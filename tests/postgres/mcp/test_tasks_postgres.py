"""Tasks on PostgreSQL, where there are replicas."""

from tests.mcp.test_tasks import (
    pytestmark,
    test_any_replica_can_answer_for_a_task,
    test_call_returns_a_task_that_completes_with_the_result,
    test_repeated_call_with_the_same_key_is_one_task,
    test_task_is_cancelled,
    test_unknown_task_is_not_found,
)

__all__ = [
    "pytestmark",
    "test_any_replica_can_answer_for_a_task",
    "test_call_returns_a_task_that_completes_with_the_result",
    "test_repeated_call_with_the_same_key_is_one_task",
    "test_task_is_cancelled",
    "test_unknown_task_is_not_found",
]
