"""For all tests: the assertions of the suites we ship explain themselves as ours do."""

import pytest

pytest.register_assert_rewrite("coatcheck.testing")
