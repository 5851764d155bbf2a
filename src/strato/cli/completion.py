"""``strato completion``: the script a shell evaluates."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL; for bash: source <(strato completion bash)."""
    from strato.cli.main import COMPLETE_VARIABLE

    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    click.echo(kind(root, {}, "strato", COMPLETE_VARIABLE).source())
