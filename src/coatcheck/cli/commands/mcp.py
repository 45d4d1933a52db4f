"""`coatcheck mcp`: an MCP server on stdin and stdout that offers a server's kinds as tools."""

from __future__ import annotations

import asyncio
import sys

import click

from coatcheck.cli import exit_codes
from coatcheck.cli.exit_codes import ApiError
from coatcheck.cli.options import SERVER_OPTIONS, options
from coatcheck.cli.output.terminal import say
from coatcheck.client.address import find_address
from coatcheck.errors import ConfigurationError
from coatcheck.mcp.stdio import Bridge, read_lines


@click.command()
@options(*SERVER_OPTIONS)
def mcp(url: str, api_key: str | None) -> None:
    """Serve the Model Context Protocol on stdin and stdout.

    MCP clients start this command. Each kind of job that the key may submit is a tool. The server
    must be installed with coatcheck[mcp]; this command does not need the extra. Clients that speak
    HTTP can use the server's /mcp directly.

    \b
    Examples:
        coatcheck mcp
        COATCHECK_API_KEY=ck_... coatcheck mcp --url https://jobs.example
    """
    try:
        address = find_address(url, api_key or "")
    except ConfigurationError as error:
        raise ApiError(str(error), exit_codes.USAGE) from None
    if sys.stdin.isatty():
        say(f"Serving MCP for {address.shown} on stdin, for an MCP client. Ctrl-D ends it.")
    bridge = Bridge(address, _write)
    asyncio.run(bridge.run(read_lines(sys.stdin.fileno())))


def _write(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()
