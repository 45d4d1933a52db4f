from tests.http.test_schedules import *  # noqa: F403 - the same, over another store
