import pytest  # noqa: A005 - named for the layer it tests, and always imported as tests.http

pytest.register_assert_rewrite("tests.http.problems")
