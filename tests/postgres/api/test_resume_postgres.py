from tests.http.test_resume import *  # noqa: F403 - the same, over another store
