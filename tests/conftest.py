"""For all tests: the assertions of the suites we ship explain themselves as ours do."""

import signal

import pytest

pytest.register_assert_rewrite("coatcheck.testing")

# Who is started in the background ignores Ctrl-C, and so does what it starts; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
