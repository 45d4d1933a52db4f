"""`coatcheck completion`: the shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

PROGRAM = "coatcheck"
COMPLETE_VARIABLE = "_COATCHECK_COMPLETE"


SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell completion script.

    Job ids, kinds and queues are completed from the server, if it responds quickly.

    \b
    Examples:
        eval "$(coatcheck completion bash)"          # in ~/.bashrc
        eval "$(coatcheck completion zsh)"           # in ~/.zshrc
        coatcheck completion fish > ~/.config/fish/completions/coatcheck.fish
    """
    script = SHELLS[shell](ctx.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE)
    # `source()` would start a bash to check its version.
    click.echo(script.source_template % script.source_vars())
