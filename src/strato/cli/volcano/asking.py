"""How Volcano's programs reach the cluster, and how they report failures."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from strato.api.kinds import Kind
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.volcano.cobra import Flag, Values
from strato.client.cluster import Cluster
from strato.errors import StratoError

T = TypeVar("T")

CLUSTER = (
    Flag("master", "s", "address of the API server"),
    Flag("kubeconfig", "k", "kubeconfig file, instead of the usual ones"),
)
"""Flags of every verb that talks to a cluster."""


class Failed(StratoError):
    """A verb failed; the message is Volcano's."""


def ask(values: Values, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Run ``work`` against the cluster that the flags name."""
    ctx = click.Context(click.Command("vcctl"))
    ctx.obj = {
        "master": values["master"] or None,
        "kubeconfig": values["kubeconfig"] or None,
        "context": None,
        "home": os.environ.get("STRATO_HOME"),
    }
    return with_cluster(ctx, work)


def named(values: Values, missing: str) -> str:
    """Return the value of the flag ``--name``; fail with ``missing`` if it is empty."""
    if not values["name"]:
        raise Failed(missing)
    name: str = values["name"]
    problems = (
        [f"may not be '{name}'"] if name in (".", "..") else [f"may not contain '{c}'" for c in "/%" if c in name]
    )
    if problems:  # client-go refuses a name that would change the request's path
        raise Failed(f'invalid resource name "{name}": [{" ".join(problems)}]')
    return name


def order(values: Values, kind: Kind, name: str, action: str, namespace: str) -> None:
    """Create a Command for an object, without output."""

    async def work(cluster: Cluster) -> None:
        target = await cluster.get(kind, name, namespace if kind.namespaced else "")
        await issue_command(cluster, target, action, namespace=namespace)

    ask(values, work)
