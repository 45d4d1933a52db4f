from tests.http.test_remote_steps import *  # noqa: F403 - the same, over another store
