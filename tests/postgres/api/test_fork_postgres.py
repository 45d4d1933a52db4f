from tests.http.test_fork import *  # noqa: F403 - the same, over another store
