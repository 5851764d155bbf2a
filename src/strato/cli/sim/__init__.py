"""``strato sim``: what a policy, a cluster or a load would do, in virtual time; one file per command."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "run": "Run an experiment, or a trace under one or several policies.",
    "sweep": "Run an experiment at every point of a grid of parameters.",
    "traces": "Describe and convert traces of jobs, of many formats.",
    "load": "Put load on a cluster at a rate, or run a performance test.",
    "record": "Follow a cluster and write a log of what its scheduler must have seen.",
    "replay": "Decide a recorded log anew, under its own policy or another.",
    "reproduce": "Compute a paper's table anew, beside the published one.",
    "utilisation": "Run trainings beside services, with and without overcommit.",
}
"""Name -> one line of help, so that listing them imports nothing; the module has the command's name, - as _."""


class _Commands(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"strato.cli.sim.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands)
def sim() -> None:
    """Simulate."""
