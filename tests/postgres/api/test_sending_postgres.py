from tests.http.test_sending import *  # noqa: F403 - the same, over another store
