"""``strato run``: one component as a process of its own, against any cluster."""

from __future__ import annotations

import importlib

import click

from strato.cli.lazygroup import LazyGroup

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


def _load(component: str) -> object:
    name = ALIASES.get(component, component)
    module = importlib.import_module(f"strato.cli.run.{COMPONENTS[name][0]}")
    return getattr(module, "run_all" if name == "all" else name)


_HELP = {name: text for name, (_, text) in COMPONENTS.items()}


@click.group(cls=LazyGroup, table=_HELP, load=_load, aliases=ALIASES)
def run() -> None:
    """Run one component against a cluster until it is told to stop."""
