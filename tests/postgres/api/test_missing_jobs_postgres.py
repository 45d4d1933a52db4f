from tests.http.test_missing_jobs import *  # noqa: F403 - the same, over another store
