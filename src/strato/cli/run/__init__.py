"""``strato run``: one component as a process of its own, against any cluster."""

from __future__ import annotations

import importlib

import click

COMPONENTS = {
    "scheduler": ("components", "Run the scheduler."),
    "controllers": ("components", "Run the controllers of Volcano's kinds."),
    "webhook": ("webhook", "Run the admission webhook."),
    "all": ("everything", "Run scheduler, controllers and webhook in one process."),
    "apiserver": ("apiserver", "Run the embedded API server alone."),
    "node": ("nodes", "Run nodes: hollow ones, or this machine."),
    "mesos": ("mesos", "Run a Mesos master whose agents are the nodes."),
}
"""Name -> module and one line of help, so that listing them imports nothing."""


ALIASES = {"nodes": "node"}
"""Other names of parts, which the help leaves out."""


class _Components(click.Group):
    """Imports a part's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the parts in the order of the table."""
        return list(COMPONENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one part."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMPONENTS:
            return None
        module = importlib.import_module(f"strato.cli.run.{COMPONENTS[cmd_name][0]}")
        command = getattr(module, "run_all" if cmd_name == "all" else cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the parts without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMPONENTS.items()])


@click.group(cls=_Components)
def run() -> None:
    """Run one component against a cluster until it is told to stop."""
