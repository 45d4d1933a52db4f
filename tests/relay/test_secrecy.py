"""What is sealed, and who can open it."""

from __future__ import annotations

import hmac
import json

import pytest

from coatcheck.crypto.encryption import PREFIX, Keyring
from coatcheck.errors import BlobDamaged
from coatcheck.relay.call import InlineBody, StoredResponse
from coatcheck.relay.credentials import Binding, CallEncryption

SECRET = "Bearer s3cret"
MINE = Binding("acme", "rule", "job", "owner")


def secrecy(pepper: bytes = b"p" * 32) -> CallEncryption:
    return CallEncryption(lambda: pepper)


@pytest.mark.parametrize("part", Binding._fields)
def test_credentials_are_encrypted_for_one_job_and_one_pepper(part: str) -> None:
    sealed = secrecy().encrypt([("authorization", SECRET)], MINE)
    assert sealed is not None
    assert "s3cret" not in sealed
    assert secrecy().decrypt(sealed, MINE) == [("authorization", SECRET)]
    with pytest.raises(BlobDamaged):
        secrecy().decrypt(sealed, MINE._replace(**{part: "other"}), by_rule=True)
    with pytest.raises(BlobDamaged):
        secrecy(b"q" * 32).decrypt(sealed, MINE)
    for text in ("nonsense", sealed.partition(":")[2], f"relay:{sealed.partition(':')[2]}"):
        with pytest.raises(BlobDamaged):
            secrecy().decrypt(text, MINE, by_rule=True)


def test_parts_of_a_binding_cannot_be_shifted_into_each_other() -> None:
    sealed = secrecy().encrypt([("authorization", SECRET)], Binding("a", "b", "c", None))
    for other in (Binding("a", "b", "c", ""), Binding('a", "b', "c", "", None)):
        with pytest.raises(BlobDamaged):
            secrecy().decrypt(sealed, other)


def test_credentials_of_an_earlier_version_are_opened_where_no_client_can_have_put_them() -> None:
    key = hmac.digest(b"p" * 32, b"coatcheck relay credentials", "sha256")
    text = json.dumps([("authorization", SECRET)])
    sealed = Keyring({"relay": key}).encrypt(text, "rule").removeprefix(PREFIX)
    assert secrecy().decrypt(sealed, MINE, by_rule=True) == [("authorization", SECRET)]
    with pytest.raises(BlobDamaged):
        secrecy().decrypt(sealed, MINE)
    with pytest.raises(BlobDamaged):
        secrecy().decrypt(sealed, MINE._replace(rule="other"), by_rule=True)


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
    answer = StoredResponse(
        status=201,
        headers=[("x-name", "Ada"), ("set-cookie", "sid=9")],
        size=5,
        body=InlineBody.of(b"hello"),
    )
    for owned, hidden in ((True, ("Ada", "sid=9", "hello")), (False, ("sid=9",))):
        kept = secrecy().closed(answer, MINE, owned=owned)
        text = kept.model_dump_json()
        assert all(word not in text for word in hidden)
        assert kept.status == 201
        opened = secrecy().opened(kept, MINE)
        assert sorted(opened.headers) == sorted(answer.headers)
        assert opened.body == answer.body
        with pytest.raises(BlobDamaged):
            secrecy().opened(kept, MINE._replace(job_id="other"))


@pytest.mark.parametrize("content", [b"", b"text", b"\xff\x00", b"nul\x00inside", "é".encode()])
def test_a_body_comes_back_as_it_was(content: bytes) -> None:
    body = InlineBody.of(content)
    assert body.content == content
    assert "\0" not in body.text
