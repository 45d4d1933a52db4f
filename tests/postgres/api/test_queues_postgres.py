from tests.http.test_queues import *  # noqa: F403 - the same, over another store
