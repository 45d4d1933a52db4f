"""Whatever an SVG contains, its sanitized form only paints."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

import pytest

from coatcheck.surfaces.render.drawing import DrawingError
from coatcheck.surfaces.render.drawing.css import sanitize_css
from coatcheck.surfaces.render.drawing.sanitize import sanitize_svg
from tests.surfaces.render.drawing.picture_analysis import SVG

OPEN = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:h="http://www.w3.org/1999/xhtml" viewBox="0 0 9 9">'
)
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()

HOSTILE = [
    "<script>bad()</script>",
    '<script href="https://bad.example/x.js"/>',
    '<g onclick="bad()"/>',
    '<g ONLOAD="bad()"/>',
    '<rect onmouseover="bad()" width="1"/>',
    '<a href="javascript:bad()"><text>x</text></a>',
    '<a xlink:href="javascript:bad()"><text>x</text></a>',
    '<a href=" &#9;java&#10;script:bad()"><text>x</text></a>',
    '<a href="JaVaScRiPt:bad()"><text>x</text></a>',
    '<a href="data:text/html,bad"><text>x</text></a>',
    '<a href="vbscript:bad()"><text>x</text></a>',
    '<a href="file:///bad"><text>x</text></a>',
    '<image href="http://bad.example/x.png"/>',
    '<image xlink:href="//bad.example/x.png"/>',
    '<image href="/bad.png"/>',
    '<image href="file:///bad.png"/>',
    '<image href="data:image/svg+xml;base64,bad"/>',
    '<image href="data:text/html;base64,bad"/>',
    '<use href="https://bad.example/x.svg#a"/>',
    '<use xlink:href="bad.svg#a"/>',
    '<use href="data:image/svg+xml,bad#a"/>',
    "<foreignObject><h:div>bad</h:div></foreignObject>",
    '<foreignObject><h:iframe src="bad"/></foreignObject>',
    '<h:img src="bad" onerror="bad()"/>',
    "<h:script>bad()</h:script>",
    '<iframe src="bad"/>',
    '<animate attributeName="href" values="javascript:bad()"/>',
    '<set attributeName="onclick" to="bad()"/>',
    '<animateTransform attributeName="bad"/>',
    '<handler type="bad">bad()</handler>',
    "<title><script>bad()</script></title>",
    '<desc><h:img src="bad"/></desc>',
    "<style><script>bad()</script></style>",
    '<style>@import "https://bad.example/x.css";</style>',
    "<style>@import url(//bad.example/x.css);</style>",
    "<style>@IMPORT 'bad.css';</style>",
    "<style>@im\\70ort 'bad.css';</style>",
    "<style>@im/**/port 'bad'; a{b:url(bad)}</style>",
    "<style>a{background:url(http://bad.example/)}</style>",
    "<style>a{background:URL( 'bad' )}</style>",
    "<style>a{background:u\\72l(bad)}</style>",
    "<style>a{background:\\75\\72\\6c(bad)}</style>",
    "<style>a{background:u\\/**/rl(bad)}</style>",
    "<style>a{fill:url(#ok/../../bad)}</style>",
    "<style>a{background:image-set('bad' 1x)}</style>",
    "<style>a{background:-webkit-image-set('bad' 1x)}</style>",
    "<style>@font-face{src:url(bad.woff)}</style>",
    "<style>@font-face{src:src('bad')}</style>",
    "<style>a{b:url(data:text/html,bad)}</style>",
    "<style>a{b:url(data:image/svg+xml,bad)}</style>",
    "<style><![CDATA[a{b:url(bad)}]]></style>",
    "<style>a{b:ur</style><style>l(bad)}</style>",
    '<rect style="fill:url(http://bad.example/#a)"/>',
    '<rect style="fill:u\\72l(bad)"/>',
    '<rect fill="url(http://bad.example/#a)"/>',
    "<rect fill=\"url('bad#a')\"/>",
    '<rect filter="URL(bad)"/>',
    '<rect mask="u\\72l(bad)"/>',
    '<rect cursor="url(bad)"/>',
    '<g xml:base="http://bad.example/"/>',
    '<g href="http://bad.example/"/>',
    '<g src="bad" action="bad" formaction="bad" ping="bad" srcset="bad"/>',
    '<?xml-stylesheet href="bad.css"?>',
    "<!-- bad -->",
    "<metadata>bad</metadata>",
    "<switch><foreignObject>bad</foreignObject></switch>",
    '<feImage href="http://bad.example/"/>',
    '<filter><feImage xlink:href="bad"/></filter>',
    "<svg><script>bad()</script></svg>",
    '<a xmlns="">bad</a>',
]


@pytest.mark.parametrize("attack", HOSTILE)
def test_attacks_are_removed(attack: str) -> None:
    drawn = sanitize_svg(f"{OPEN}{attack}<text>kept</text></svg>")
    # A removed URL may remain as a word in an unknown function.
    harmless = drawn.replace("removed(", "(")
    for word in ("script", "onclick", "onload", "onmouseover", "url(", "@import", "image-set("):
        assert word not in harmless.lower(), drawn
    root = ElementTree.fromstring(drawn)
    assert [text.text for text in root.findall(f"{SVG}text")] == ["kept"]
    for element in root.iter():
        assert element.tag == f"{SVG}style" or "bad" not in (element.text or "")
        for name, value in element.items():
            assert not name.lower().startswith("on")
            assert "bad" not in value or "(" in value, drawn


def test_entities_are_rejected() -> None:
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 9}">' for n in range(1, 9))
    for document_type in (
        f'<!DOCTYPE svg [<!ENTITY e0 "bad">{bomb}]>',
        '<!DOCTYPE svg [<!ENTITY e8 SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE svg SYSTEM "http://127.0.0.1:9/svg.dtd">',
    ):
        with pytest.raises(DrawingError, match="document type"):
            sanitize_svg(f"{document_type}{OPEN}<text>&e8;</text></svg>")


@pytest.mark.parametrize("text", ["", "no XML", "<svg", "<html/>", f"{OPEN}</svg>{OPEN}</svg>"])
def test_non_svg_is_rejected(text: str) -> None:
    with pytest.raises(DrawingError, match="not produce an SVG"):
        sanitize_svg(text)


def test_nesting_is_limited() -> None:
    with pytest.raises(DrawingError, match="nested more than 256 levels deep"):
        sanitize_svg(OPEN + "<g>" * 300 + "</g>" * 300 + "</svg>")


@pytest.mark.parametrize(
    "text",
    ["a < b & c > d", "\"quoted\" 'too'", "]]>", "javascript:x", "url(x)", "語 🎉 é", "a\nb\t c"],
)
def test_text_is_unchanged(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    drawn = sanitize_svg(f"{OPEN}<text><tspan>{escaped}</tspan></text></svg>")
    assert "".join(ElementTree.fromstring(drawn).itertext()) == text


@pytest.mark.parametrize(
    "kept",
    [
        '<path d="M0 0 L1 1" fill="none" stroke="#000" marker-end="url(#arrow)"></path>',
        '<g class="a" id="b" transform="translate(1, 2)"><rect width="1" height="2"></rect></g>',
        '<rect style="fill:url(#gradient);stroke:none"></rect>',
        '<use href="#part"></use>',
        '<use xlink:href="#part"></use>',
        f'<image href="{PNG}" width="1"></image>',
        '<a href="https://example.com/?a=1&amp;b=2" rel="noopener noreferrer"><text>x</text></a>',
        '<a href="mailto:somebody@example.com" rel="noopener noreferrer"><text>x</text></a>',
        "<style>.a &gt; .b{fill:url(#c);background:url('#d')}</style>",
        '<style>@font-face{src:url("data:application/font-woff;base64,d09GRg==")}</style>',
        "<style>@media screen{a{b:c}}@keyframes d{to{e:f}}</style>",
        '<text xml:space="preserve" data-note="on(e)" aria-label="x">a  b</text>',
        '<text id="f(x)" class="\\">x</text>',
    ],
)
def test_painting_elements_are_kept(kept: str) -> None:
    drawn = sanitize_svg(f"{OPEN}{kept}</svg>")
    assert drawn == (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 9 9">{kept}</svg>'
    )
    assert sanitize_svg(drawn) == drawn


def test_long_style_sheets_take_linear_time() -> None:
    # Each of these is quadratic for a regular expression that looks ahead too far.
    for part in ("a", "/*", "url(", "url( ", "@", "@a", " ", "-"):
        assert "url(" not in sanitize_css(part * 100_000)
