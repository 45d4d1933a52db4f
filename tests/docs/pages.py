"""Read the documentation: its files, code blocks and links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import httpx2

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("", "docs/**/", "benchmarks/", "examples/")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(f"{folder}*.md"))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """The name in a block's first line, such as `# tasks.py` or `// kinds.mjs`."""
        found = re.match(r"(?:#|//) (\w+\.(?:py|mjs))\n", self.text)
        return found and found[1]


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text())]


def write_python_files(page: Path, folder: Path, url: str = "http://127.0.0.1:8080") -> list[str]:
    """Write the named Python blocks of a page into a folder, with another server URL."""
    return write_files(page, folder, "python", url)


def write_files(page: Path, folder: Path, language: str, url: str) -> list[str]:
    """Write the named blocks in a language into a folder, with another server URL."""
    names = []
    for block in blocks(page):
        if block.language == language and block.file_name is not None:
            text = block.text.replace("http://127.0.0.1:8080", url)
            (folder / block.file_name).write_text(text)
            names.append(block.file_name)
    return names


def local_links(page: Path) -> list[str]:
    """Return the links of a page that lead into the repository."""
    return [link for link in _LINK.findall(page.read_text()) if "://" not in link]


def run_curl(command: str, folder: Path = ROOT) -> httpx2.Response:
    """Execute a curl command of the documentation in a folder; supports only the used flags."""
    arguments = iter(shlex.split(command.replace("\\\n", " "))[1:])
    url, headers, data, method = "", {}, None, None
    files, fields = {}, {}
    for argument in arguments:
        match argument:
            case "-i" | "-s":
                continue
            case "-H":
                name, _, value = next(arguments).partition(":")
                headers[name] = value.strip()
            case "-d":
                data = next(arguments)
            case "-F":
                name, _, value = next(arguments).partition("=")
                if value.startswith("@"):
                    files[name] = (Path(value).name, (folder / value[1:]).read_bytes())
                else:
                    fields[name] = value
            case "-X":
                method = next(arguments)
            case _:
                assert not argument.startswith("-"), f"teach run_curl the flag {argument}"
                url = argument
    method = method or ("GET" if data is None and not files else "POST")
    return httpx2.request(
        method,
        url,
        headers=headers,
        content=data,
        data=fields or None,
        files=files or None,
        timeout=60,
    )
