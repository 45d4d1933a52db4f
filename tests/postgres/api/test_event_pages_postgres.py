from tests.http.test_event_pages import *  # noqa: F403 - the same, over another store
