"""axe-core, which looks for what keeps people from using a page: taken from npm, pinned."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from .npm import front_end_for

VERSION = "4.14.0"
INTEGRITY = (
    "sha512-"
    "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
)
LOOK = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`));
}"""


def fetched(folder: Path) -> str | None:
    """Return the program; None where npm cannot be reached."""
    tool = front_end_for(folder / "axe")
    package = tool.Package("axe-core", VERSION, INTEGRITY, {"axe.min.js": "axe.js"}, ".")
    try:
        archive = tool._packed(package, folder)
    except SystemExit:
        return None
    tool._check(package, archive)
    tool._unpack(package, archive)
    return (folder / "axe/axe.js").read_text()


def found_by(program: str, page: Page) -> list[str]:
    """Return what is wrong with a page as it is now."""
    # Not as a script of the page: its policy lets none in.
    page.evaluate(f"() => {{ {program} }}")
    return [str(each) for each in page.evaluate(LOOK)]
