"""`coatcheck completion`."""

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
    """Print the script that completes coatcheck's commands in a shell.

    Ids of jobs, kinds and queues are asked of the server, where it answers at once.

    \b
    Examples:
        eval "$(coatcheck completion bash)"          # in ~/.bashrc
        eval "$(coatcheck completion zsh)"           # in ~/.zshrc
        coatcheck completion fish > ~/.config/fish/completions/coatcheck.fish
    """
    made = SHELLS[shell](ctx.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE)
    # Not `source()`, which starts a bash to see how old it is.
    click.echo(made.source_template % made.source_vars())
