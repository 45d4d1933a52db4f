"""The examples on MCP run: the app, the configuration and the program."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from .pages import ROOT, blocks, write_python_files
from .test_examples import serving

PAGE = ROOT / "docs/how-to/mcp.md"


async def ask_as_configured(url: str) -> tuple[list[str], str]:
    """Start the configured command and call the tool."""
    [configuration] = [block.text for block in blocks(PAGE) if block.language == "json"]
    said = json.loads(configuration.replace("http://127.0.0.1:8080", url))
    server = said["mcpServers"]["coatcheck"]
    assert server["command"] == "coatcheck"
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "coatcheck", *server["args"]],
        env={**os.environ, **server["env"]},
    )
    async with Client(command) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("report", {"month": "2030-01", "pages": 3})
        [content] = answer.content
        assert isinstance(content, types.TextContent)
        return names, content.text


def test_the_tools_of_an_assistant(tmp_path: Path) -> None:
    assert write_python_files(PAGE, tmp_path) == ["desk.py", "ask.py"]
    with serving(tmp_path, "desk:app") as url:
        write_python_files(PAGE, tmp_path, url)
        names, told = asyncio.run(ask_as_configured(url))
        listed = {line.split("`")[1] for line in PAGE.read_text().splitlines() if "| `job_" in line}
        assert set(names) == {"report", *listed}
        assert json.loads(told) == {"month": "2030-01", "pages": 3}
        asked = subprocess.run(
            [sys.executable, "ask.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert json.loads(asked.stdout) == {"month": "2030-01", "pages": 3}


def test_the_key_of_an_assistant(tmp_path: Path) -> None:
    [command] = [
        block.text for block in blocks(PAGE) if block.language == "sh" and "keys" in block.text
    ]
    ended = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("ck_")
