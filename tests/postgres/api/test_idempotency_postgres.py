from tests.http.test_idempotency import *  # noqa: F403 - the same, over another store
