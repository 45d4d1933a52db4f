from tests.http.test_stream import *  # noqa: F403 - the same, over another store
