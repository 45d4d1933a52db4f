from tests.http.test_webhooks import *  # noqa: F403 - the same, over another store
