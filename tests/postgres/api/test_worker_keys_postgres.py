from tests.http.test_worker_keys import *  # noqa: F403 - the same, over another store
