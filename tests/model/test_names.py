import pytest

from coatcheck.model.names import is_name


@pytest.mark.parametrize(
    "name", ["mail", "a", "Send_Mail", "render.pdf:v2", "_x", "9to5", "x" * 100]
)
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "x" * 101, "-x", ".x", ":x", "a b", "a/b", "größe", "a\n", "\na", "a\0", "a%20"]
)
def test_what_is_no_name(name: str) -> None:
    assert not is_name(name)
