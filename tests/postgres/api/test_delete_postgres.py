from tests.http.test_delete import *  # noqa: F403 - the same, over another store
