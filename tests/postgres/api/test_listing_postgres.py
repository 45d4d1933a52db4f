from tests.http.test_listing import *  # noqa: F403 - the same, over another store
