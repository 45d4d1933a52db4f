from tests.http.test_position import *  # noqa: F403 - the same, over another store
