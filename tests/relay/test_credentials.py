"""Encryption of credentials and responses, and ownership of calls."""

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


def encryption(pepper: bytes = b"p" * 32) -> CallEncryption:
    return CallEncryption(lambda: pepper)


@pytest.mark.parametrize("part", Binding._fields)
def test_credentials_are_encrypted_for_one_job_and_one_pepper(part: str) -> None:
    encrypted = encryption().encrypt_headers([("authorization", SECRET)], MINE)
    assert encrypted is not None
    assert "s3cret" not in encrypted
    assert encryption().decrypt_headers(encrypted, MINE) == [("authorization", SECRET)]
    with pytest.raises(BlobDamaged):
        encryption().decrypt_headers(encrypted, MINE._replace(**{part: "other"}), by_rule=True)
    with pytest.raises(BlobDamaged):
        encryption(b"q" * 32).decrypt_headers(encrypted, MINE)
    for text in ("nonsense", encrypted.partition(":")[2], f"relay:{encrypted.partition(':')[2]}"):
        with pytest.raises(BlobDamaged):
            encryption().decrypt_headers(text, MINE, by_rule=True)


def test_binding_fields_cannot_be_shifted_into_each_other() -> None:
    encrypted = encryption().encrypt_headers(
        [("authorization", SECRET)], Binding("a", "b", "c", None)
    )
    for other in (Binding("a", "b", "c", ""), Binding('a", "b', "c", "", None)):
        with pytest.raises(BlobDamaged):
            encryption().decrypt_headers(encrypted, other)


def test_credentials_of_earlier_versions_decrypt_only_in_trusted_inputs() -> None:
    key = hmac.digest(b"p" * 32, b"coatcheck relay credentials", "sha256")
    text = json.dumps([("authorization", SECRET)])
    encrypted = Keyring({"relay": key}).encrypt(text, "rule").removeprefix(PREFIX)
    assert encryption().decrypt_headers(encrypted, MINE, by_rule=True) == [
        ("authorization", SECRET)
    ]
    with pytest.raises(BlobDamaged):
        encryption().decrypt_headers(encrypted, MINE)
    with pytest.raises(BlobDamaged):
        encryption().decrypt_headers(encrypted, MINE._replace(rule="other"), by_rule=True)


def test_first_credential_identifies_the_owner() -> None:
    mine = [("cookie", "a=1"), ("authorization", SECRET)]
    owner = encryption().mark_owner(mine)
    assert owner is not None
    assert owner.startswith("authorization:")
    assert "s3cret" not in owner
    assert encryption().is_owner(owner, [("authorization", SECRET), ("cookie", "a=2")])
    assert not encryption().is_owner(owner, [("cookie", "a=1")])
    assert not encryption().is_owner(owner, [("authorization", "Bearer other")])
    assert not encryption(b"q" * 32).is_owner(owner, mine)
    assert encryption().mark_owner([("accept", "*/*")]) is None
    assert encryption().is_owner(None, [])


def test_owned_response_is_encrypted_except_its_status() -> None:
    answer = StoredResponse(
        status=201,
        headers=[("x-name", "Ada"), ("set-cookie", "sid=9")],
        size=5,
        body=InlineBody.of(b"hello"),
    )
    for owned, hidden in ((True, ("Ada", "sid=9", "hello")), (False, ("sid=9",))):
        kept = encryption().encrypt_response(answer, MINE, owned=owned)
        text = kept.model_dump_json()
        assert all(word not in text for word in hidden)
        assert kept.status == 201
        opened = encryption().decrypt_response(kept, MINE)
        assert sorted(opened.headers) == sorted(answer.headers)
        assert opened.body == answer.body
        with pytest.raises(BlobDamaged):
            encryption().decrypt_response(kept, MINE._replace(job_id="other"))


@pytest.mark.parametrize("content", [b"", b"text", b"\xff\x00", b"nul\x00inside", "é".encode()])
def test_inline_body_round_trips(content: bytes) -> None:
    body = InlineBody.of(content)
    assert body.content == content
    assert "\0" not in body.text
