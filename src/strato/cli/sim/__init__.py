"""``strato sim``: what a policy, a cluster or a load would do, in virtual time; one file per command."""

from __future__ import annotations

import importlib

import click

from strato.cli.lazygroup import LazyGroup

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


def _load(command: str) -> object:
    name = command.replace("-", "_")
    return getattr(importlib.import_module(f"strato.cli.sim.{name}"), name)


@click.group(cls=LazyGroup, table=COMMANDS, load=_load)
def sim() -> None:
    """Simulate."""
