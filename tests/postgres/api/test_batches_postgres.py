from tests.http.test_batches import *  # noqa: F403 - the same, over another store
