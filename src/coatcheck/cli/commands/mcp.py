"""`coatcheck mcp`: what an assistant starts to use the kinds of a server as its tools."""

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
from coatcheck.mcp.stdio import Bridge, lines_of


@click.command()
@options(*SERVER_OPTIONS)
def mcp(url: str, api_key: str | None) -> None:
    """Speak the Model Context Protocol on stdin and stdout, for an assistant that starts this.

    Each kind of job that the key may submit is a tool. The server must have been installed with
    coatcheck[mcp]; this command needs nothing of it. An assistant that speaks HTTP can use the
    server's /mcp without it.

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
        say(f"Speaking MCP for {address.shown}; this is for an assistant to start. Ctrl-D ends it.")
    bridge = Bridge(address, _write)
    asyncio.run(bridge.run(lines_of(sys.stdin.fileno())))


def _write(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()
