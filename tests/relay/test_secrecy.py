"""What is sealed, and who can open it."""

from __future__ import annotations

import pytest

from coatcheck.errors import BlobDamaged
from coatcheck.relay.call import InlineBody, StoredAnswer
from coatcheck.relay.secrecy import Secrecy

SECRET = "Bearer s3cret"


def secrecy(pepper: bytes = b"p" * 32) -> Secrecy:
    return Secrecy(lambda: pepper)


def test_credentials_are_sealed_for_one_kind_and_one_pepper() -> None:
    sealed = secrecy().seal([("authorization", SECRET)], "kind")
    assert sealed is not None
    assert "s3cret" not in sealed
    assert secrecy().open(sealed, "kind") == [("authorization", SECRET)]
    with pytest.raises(BlobDamaged):
        secrecy().open(sealed, "other")
    with pytest.raises(BlobDamaged):
        secrecy(b"q" * 32).open(sealed, "kind")
    with pytest.raises(BlobDamaged):
        secrecy().open("nonsense", "kind")


def test_an_owner_is_told_by_the_first_credential() -> None:
    mine = [("cookie", "a=1"), ("authorization", SECRET)]
    owner = secrecy().owner_of(mine)
    assert owner is not None
    assert owner.startswith("authorization:")
    assert "s3cret" not in owner
    assert secrecy().is_owner(owner, [("authorization", SECRET), ("cookie", "a=2")])
    assert not secrecy().is_owner(owner, [("cookie", "a=1")])
    assert not secrecy().is_owner(owner, [("authorization", "Bearer other")])
    assert not secrecy(b"q" * 32).is_owner(owner, mine)
    assert secrecy().owner_of([("accept", "*/*")]) is None
    assert secrecy().is_owner(None, [])


def test_an_answer_for_one_caller_is_sealed_but_for_its_status() -> None:
    answer = StoredAnswer(
        status=201,
        headers=[("x-name", "Ada"), ("set-cookie", "sid=9")],
        size=5,
        body=InlineBody.of(b"hello"),
    )
    for owned, hidden in ((True, ("Ada", "sid=9", "hello")), (False, ("sid=9",))):
        kept = secrecy().closed(answer, "kind", owned=owned)
        text = kept.model_dump_json()
        assert all(word not in text for word in hidden)
        assert kept.status == 201
        opened = secrecy().opened(kept, "kind")
        assert sorted(opened.headers) == sorted(answer.headers)
        assert opened.body == answer.body


@pytest.mark.parametrize("content", [b"", b"text", b"\xff\x00", b"nul\x00inside", "é".encode()])
def test_a_body_comes_back_as_it_was(content: bytes) -> None:
    body = InlineBody.of(content)
    assert body.content == content
    assert "\0" not in body.text
