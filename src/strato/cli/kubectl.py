"""``strato kubectl …``: the system's kubectl with the right kubeconfig."""

from __future__ import annotations

import os
import shutil

import click

from strato.cli.connect import kubeconfig_paths, kubectl_flags
from strato.errors import StateError


class _PassedOn(click.Command):
    """A command whose arguments click does not parse: click would drop a ``--``, which kubectl exec needs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep all arguments as they were typed."""
        ctx.params["args"] = tuple(args)
        return []


@click.command(cls=_PassedOn, add_help_option=False)
@click.argument("args", nargs=-1)
@click.pass_context
def kubectl(ctx: click.Context, args: tuple[str, ...]) -> None:
    """Run kubectl ARGS against the cluster; everything after the word kubectl is passed on."""
    program = shutil.which("kubectl")
    if program is None:
        raise StateError("kubectl is not installed; on Debian: apt-get install kubernetes-client")
    paths = [] if _asks_for_help(args) else kubeconfig_paths(ctx)
    if paths:
        os.environ["KUBECONFIG"] = os.pathsep.join(str(path) for path in paths)
    os.execv(program, ["kubectl", *kubectl_flags(ctx), *args])


def _asks_for_help(args: tuple[str, ...]) -> bool:
    """Whether the arguments ask for kubectl's help, which needs no cluster."""
    words = args[: args.index("--")] if "--" in args else args
    return not words or words[0] in ("help", "completion", "options") or "--help" in words or "-h" in words
