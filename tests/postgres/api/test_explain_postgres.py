from tests.http.test_explain import *  # noqa: F403 - the same, over another store
