"""Reading a submission: one that says little is read without a model, and just the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.errors import InvalidPayload
from coatcheck.http.jobs.models import read_submission

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(text, inside, max_size=4)
)


@given(text, values)
def test_a_plain_submission_reads_like_any_other(kind: str, value: Any) -> None:
    plain = read_submission({"kind": kind, "input": value}, correlation="c", traceparent="t")
    with_model = read_submission(
        {"kind": kind, "input": value, "priority": 0}, correlation="c", traceparent="t"
    )

    assert plain == with_model
    # Not by ==, which takes 1, 1.0 and True for the same.
    assert repr(json.loads(plain.input)) == repr(value)


def test_a_submission_without_an_input_has_null() -> None:
    assert read_submission({"kind": "echo"}).input == "null"


@pytest.mark.parametrize("body", [{}, {"input": 1}, {"kind": 1}, {"kind": None}, [], "echo", None])
def test_what_only_looks_plain_is_refused(body: Any) -> None:
    with pytest.raises(InvalidPayload):
        read_submission(body)
