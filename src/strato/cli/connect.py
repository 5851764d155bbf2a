"""Find the cluster a command talks to, and run async work against it.

Order: ``--kubeconfig``/``--master``; the ``KUBECONFIG`` variable; the embedded cluster of this machine when it
runs; the user's ``~/.kube/config``; the service account of the pod we are in.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strato.cli.home import Home
from strato.errors import StateError, Unavailable

if TYPE_CHECKING:
    from strato.client.http import HttpCluster

T = TypeVar("T")


class NoCluster(StateError):
    """No cluster is named and none runs; exit status 1, as when a cluster does not answer."""


def home_of(ctx: click.Context) -> Home:
    """Return the embedded cluster's directory that the global options name."""
    return Home.locate(_options(ctx)["home"])


def with_cluster(ctx: click.Context, work: Callable[[HttpCluster], Awaitable[T]]) -> T:
    """Connect, run ``work`` to its end and disconnect.

    Raises:
        NoCluster: No cluster is named and none runs.
        ApiError: The server answered with an error.
    """
    import asyncio  # imported late: `strato up` imports this module and should start fast

    async def run() -> T:
        cluster = connect(ctx)
        try:
            return await work(cluster)
        except Unavailable as error:
            raise Unavailable(
                f"{error} (named by {named_by(ctx)}); is it up? "
                "Another one is named by --master URL or --kubeconfig FILE"
            ) from error
        finally:
            await cluster.close()

    return asyncio.run(run())


def named_by(ctx: click.Context) -> str:
    """Return the option, variable or file that names the cluster, for messages."""
    if _options(ctx)["master"]:
        return "--master"
    try:
        return ", ".join(map(str, kubeconfig_paths(ctx))) or "the service account of this pod"
    except NoCluster:
        return "the embedded cluster, which has gone"


def connect(ctx: click.Context, *, retries_overload: bool = True) -> HttpCluster:
    """Open a client for the cluster that the global options, the environment or this machine name.

    Args:
        ctx: The command's context.
        retries_overload: Whether the client repeats requests answered 429; the components' own queues do that
            themselves.
    """
    from strato.client import kubeconfig
    from strato.client.http import OVERLOAD_RETRIES, HttpCluster
    from strato.clock import SystemClock

    options = _options(ctx)
    config = kubeconfig.load(kubeconfig_paths(ctx), context=options["context"], server=options["master"])
    return HttpCluster(config, SystemClock(), overload_retries=OVERLOAD_RETRIES if retries_overload else 0)


def kubeconfig_paths(ctx: click.Context) -> list[Path]:
    """Return the kubeconfig files to merge; empty means ``--master`` alone or the pod's own service account.

    Raises:
        NoCluster: There is none.
    """
    options = _options(ctx)
    if options["kubeconfig"]:
        return [Path(options["kubeconfig"])]
    if options["home"] is None and os.environ.get("KUBECONFIG"):
        return [Path(part) for part in os.environ["KUBECONFIG"].split(os.pathsep) if part]
    home = home_of(ctx)
    if home.running_pid() is not None and home.kubeconfig.exists():
        return [home.kubeconfig]
    users = Path("~/.kube/config").expanduser()
    if options["home"] is None and users.exists():
        return [users]
    if os.environ.get("KUBERNETES_SERVICE_HOST") or options["master"]:
        return []
    raise NoCluster(
        "no cluster to talk to: the embedded cluster is not running and no kubeconfig is set; "
        "start one with 'strato up' or name one with --kubeconfig FILE or --master URL"
    )


def kubectl_flags(ctx: click.Context) -> list[str]:
    """Return ``--master`` and ``--context`` as kubectl's flags, if given; kubectl runs plugins only without them."""
    options = _options(ctx)
    named = (("--server", options["master"]), ("--context", options["context"]))
    return [f"{flag}={value}" for flag, value in named if value]


def _options(ctx: click.Context) -> dict[str, Any]:
    options: dict[str, Any] = ctx.find_root().obj
    return options
