"""Forms with several files and fields, read as they come, however they are cut into pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException

from coatcheck.http.request.multipart import FORM_OVERHEAD, FormField, FormFile, read_parts

pytestmark = pytest.mark.anyio

TYPE = "multipart/form-data; boundary=bound"


def part(disposition: str, content: bytes, more: str = "") -> bytes:
    head = f"--bound\r\nContent-Disposition: form-data; {disposition}\r\n{more}\r\n"
    return head.encode() + content + b"\r\n"


FORM = (
    part('name="collection"', b"docs")
    + part('name="files"; filename="a/one.txt"', b"first", "Content-Type: text/plain\r\n")
    + part('name="files"; filename="two.bin"', bytes(range(256)) * 3)
    + part('name="note"', "naïve".encode())
    + b"--bound--\r\n"
)


async def cut(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def parts_of(body: bytes, size: int, *, skip: bool = False) -> list[tuple[str | None, bytes]]:
    found: list[tuple[str | None, bytes]] = []
    async for each in read_parts(TYPE, cut(body, size)):
        match each:
            case FormField(name, value):
                found.append((name, value.encode()))
            case FormFile(name, _, pieces):
                found.append((name, b"" if skip else b"".join([piece async for piece in pieces])))
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
async def test_the_parts_come_in_order_whatever_the_pieces(size: int) -> None:
    assert await parts_of(FORM, size) == [
        ("collection", b"docs"),
        ("a/one.txt", b"first"),
        ("two.bin", bytes(range(256)) * 3),
        ("note", "naïve".encode()),
    ]


async def test_what_is_not_read_of_a_file_is_passed_over() -> None:
    names = [name for name, _ in await parts_of(FORM, 7, skip=True)]
    assert names == ["collection", "a/one.txt", "two.bin", "note"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        FORM[:-30],
        b"no form",
        part('name="x"', b"x" * (FORM_OVERHEAD + 1)) + b"--bound--\r\n",
        part('name="x"', b"\xff") + b"--bound--\r\n",
        part('name="f"; filename="f"', b"x", "Content-Transfer-Encoding: base64\r\n"),
    ],
    ids=["empty", "cut off", "no form", "a large field", "not UTF-8", "encoded"],
)
async def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(HTTPException) as refused:
        await parts_of(body, 1000)
    assert refused.value.status_code == 400
