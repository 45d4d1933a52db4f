from tests.http.test_steps import *  # noqa: F403 - the same, over another store
