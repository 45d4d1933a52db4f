from tests.http.test_metrics import *  # noqa: F403 - the same, over another store
