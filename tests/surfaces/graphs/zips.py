"""Archives for tests, good and bad."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Mapping

PROGRAM = {
    "shop/__init__.py": b"",
    "shop/till.py": b"from shop.prices import price\n\n\ndef pay(what):\n    return price(what)\n",
    "shop/prices.py": b"def price(what):\n    return len(what)\n",
}


def zipped(files: Mapping[str, bytes] | None = None, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive with these files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in (PROGRAM if files is None else files).items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return made.getvalue()


def with_mode(name: str, content: bytes, mode: int) -> bytes:
    """Return an archive with one entry that is something else than a plain file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = (mode | 0o777) << 16
        archive.writestr(info, content)
    return made.getvalue()


def link(name: str, target: str) -> bytes:
    return with_mode(name, target.encode(), stat.S_IFLNK)


def twice(name: str, other: str | None = None) -> bytes:
    """Return an archive that has a name twice."""
    longest = max(len(name), len(other or name))
    first, second = "a" * longest, "b" * longest
    content = zipped({first: b"1", second: b"2"})
    content = content.replace(first.encode(), name.encode())
    return content.replace(second.encode(), (other or name).encode())


def declared(content: bytes, *, size: int) -> bytes:
    """Return an archive of one entry with another size in its headers."""
    return patched(content, 24, struct.pack("<L", size), local=22)


def flagged(content: bytes, flags: int) -> bytes:
    return patched(content, 8, struct.pack("<H", flags), local=6)


def method(content: bytes, number: int) -> bytes:
    return patched(content, 10, struct.pack("<H", number), local=8)


def patched(content: bytes, place: int, value: bytes, *, local: int) -> bytes:
    """Return an archive with other bytes at a place of its first headers."""
    changed = bytearray(content)
    for mark, offset in ((b"PK\1\2", place), (b"PK\3\4", local)):
        at = content.index(mark) + offset
        changed[at : at + len(value)] = value
    return bytes(changed)
