"""Compare pictures by their pixels, and read the texts of an SVG."""

from __future__ import annotations

import io
from xml.etree import ElementTree

from PIL import Image, ImageChops

SVG = "{http://www.w3.org/2000/svg}"

Box = tuple[int, int, int, int]


def decode(png: bytes) -> Image.Image:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return image.convert("RGB")


def difference(one: bytes, other: bytes) -> Box | None:
    """Return the bounding box of the differences, or None."""
    return ImageChops.difference(decode(one), decode(other)).getbbox()


def ink(one: bytes, other: bytes) -> int:
    """Return the number of pixels that clearly differ."""
    changed = ImageChops.difference(decode(one), decode(other)).convert("L")
    return sum(count for level, count in enumerate(changed.histogram()) if level > 60)


def texts(svg: bytes) -> list[str]:
    """Return the visible texts: each text element, each of its lines, and all lines together."""
    found: list[str] = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        parts = (element, *element.findall(f"{SVG}tspan"))
        said = [" ".join("".join(part.itertext()).split()) for part in parts]
        found += [*said, " ".join(said[1:])]
    return found
