"""Headers that are looked up say what headers that are searched say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from coatcheck.http.jobs.fast_submit import IndexedHeaders

NAMES = ["accept", "prefer", "idempotency-key", "x-é"]

raw_headers = st.lists(
    st.tuples(st.sampled_from([name.encode("latin-1") for name in NAMES]), st.binary(max_size=4))
)


@given(raw_headers)
def test_they_are_the_same_headers(raw: list[tuple[bytes, bytes]]) -> None:
    quick, plain = IndexedHeaders(raw), Headers(raw=raw)

    for name in (*NAMES, "Accept", "PREFER", "missing"):
        assert quick.get(name) == plain.get(name)
        assert quick.get(name, "else") == plain.get(name, "else")
        assert quick.getlist(name) == plain.getlist(name)
        assert (name in quick) == (name in plain)
    assert quick.items() == plain.items()
