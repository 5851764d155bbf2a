"""The options of this machine as a node, which `strato up` and `strato run node` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from strato.api.amplification import MAX_FACTOR, MIN_FACTOR
from strato.cli.imageoptions import image_options
from strato.cli.quantities import QUANTITY

F = TypeVar("F", bound=Callable[..., Any])


overcommit_option = click.option(
    "--cpu-overcommit-factor",
    default=1.0,
    show_default=True,
    type=click.FloatRange(MIN_FACTOR, MAX_FACTOR),
    help="Offer so many times the cpus that nodes have; an annotation of a node may say otherwise.",
)


def machine_options(command: F) -> F:
    """Add the options that say which of this machine's resources the node offers, and how its pods are isolated."""
    options = (
        click.option(
            "--cpus",
            default="",
            type=QUANTITY,
            help="Cpus this machine's node offers instead of its own, for example 9.",
        ),
        click.option(
            "--node-memory", default="", type=QUANTITY, help="Memory this machine's node offers instead of its own."
        ),
        overcommit_option,
        image_options,
        click.option(
            "--pod-network",
            type=click.Choice(["nat", "isolated", "host"]),
            default="nat",
            show_default=True,
            help="As root: own addresses and egress NAT; own addresses only; the machine's network.",
        ),
        click.option(
            "--pod-users",
            type=click.Choice(["own", "host"]),
            default="own",
            show_default=True,
            help="As root: user namespaces for pods that ask for nothing of the machine's; the machine's users, unless "
            "a pod says hostUsers: false.",
        ),
        click.option(
            "--gpus",
            type=click.Choice(["all", "shared", "none"]),
            default="all",
            show_default=True,
            help="NVIDIA GPUs of this machine's node: whole (nvidia.com/gpu), in shares for the plugin deviceshare "
            "(volcano.sh/gpu-memory, volcano.sh/gpu-number), or not offered.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
