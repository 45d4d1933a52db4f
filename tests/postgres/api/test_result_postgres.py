from tests.http.test_result import *  # noqa: F403 - the same, over another store
