from tests.http.test_audit import *  # noqa: F403 - the same, over another store
