"""Options about hollow nodes, shared by all commands that start some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from strato.cli.optiongroups import option_group
from strato.cli.quantities import QUANTITY
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.node.hollow import HollowBehaviour
    from strato.node.shapes import NodeShape


SERVED = "cluster"
"""Given instead of a path of stages: use the Stage objects that the cluster holds."""


class HollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which hollow nodes there are, and how they behave."""

    nodes: str = "0"
    """A number of them, or shapes; see `strato.node.shapes.parse_nodes`."""
    cpu: str = "32"
    memory: str = "256Gi"
    """Quantities per node, used where ``nodes`` is only a number."""

    image_pulls: str = ""
    """How fast images are pulled; see `strato.node.hollow.images.parse_pull_speed`."""

    stages: tuple[str, ...] = ()
    """Files and folders of kwok's stages; ``cluster`` are those that the cluster holds."""

    def behaviour(self) -> HollowBehaviour:
        """Return how the nodes and their pods behave.

        Raises:
            UsageError: Stages or pulls cannot be read.
        """
        from strato.node.hollow import HollowBehaviour
        from strato.node.hollow.images import parse_pull_speed
        from strato.node.hollow.stages import read_stages

        files = [Path(one) for one in self.stages if one != SERVED]
        return HollowBehaviour(
            pulls=parse_pull_speed(self.image_pulls),
            stages=read_stages(files) if files else (),
            served_stages=SERVED in self.stages,
        )

    def shapes(self) -> tuple[NodeShape, ...]:
        """Return the nodes' shapes; empty when there are none."""
        from strato.node.shapes import parse_nodes

        if self.nodes.strip() in ("", "0"):
            return ()
        return parse_nodes(self.nodes, {"cpu": self.cpu, "memory": self.memory})


def overcommitted(shapes: Sequence[NodeShape], factor: float) -> Sequence[NodeShape]:
    """Return shapes with a cpu overcommit factor; a shape that names its own keeps it."""
    return [replace(one, cpu_overcommit_factor=factor) if one.cpu_overcommit_factor == 1 else one for one in shapes]


class ShapesType(click.ParamType[str]):
    """A number of nodes or shapes, as written: ``1000``, ``6000x32cpu,256Gi+4000x96cpu,1Ti,8gpu``."""

    name = "nodes"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text when it can be read."""
        from strato.errors import InvalidInput

        try:
            HollowOptions(nodes=value).shapes()
        except InvalidInput as error:
            self.fail(str(error), param, ctx)
        return value


class PullsType(click.ParamType[str]):
    """How fast images are pulled, as written: ``rate=100Mi,size=500Mi,parallel=3``."""

    name = "pulls"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text when it can be read."""
        from strato.errors import InvalidInput

        try:
            HollowOptions(image_pulls=value).behaviour()
        except InvalidInput as error:
            self.fail(str(error), param, ctx)
        return value


def _read(hollow_nodes: str, cpu: str, memory: str, image_pulls: str, stages: tuple[str, ...]) -> HollowOptions:
    found = HollowOptions(
        nodes=hollow_nodes,
        cpu=cpu,
        memory=memory,
        image_pulls=image_pulls,
        stages=tuple(one if one == SERVED else str(Path(one).absolute()) for one in stages),
    )
    if stages:
        if len(stages) > 1 and SERVED in stages:
            raise UsageError(f"--stages {SERVED} goes with no other --stages")
        found.behaviour()
    return found


hollow_options = option_group(
    "hollow",
    _read,
    (
        click.option(
            "--hollow-nodes",
            default="0",
            show_default=True,
            type=ShapesType(),
            metavar="NODES",
            help="Nodes that only pretend: a number, or shapes such as 6x32cpu,256Gi+4x96cpu,1Ti,8gpu,zone=a..c.",
        ),
        click.option("--cpu", default="32", type=QUANTITY, show_default=True, help="Cpus of each hollow node."),
        click.option("--memory", default="256Gi", type=QUANTITY, show_default=True, help="Memory of each hollow node."),
        click.option(
            "--image-pulls",
            default="",
            type=PullsType(),
            metavar="SPEED",
            help="How long hollow nodes take for images, such as rate=100Mi,size=500Mi,parallel=3; none without.",
        ),
        click.option(
            "--stages",
            multiple=True,
            metavar="PATH",
            help="Lives of hollow nodes and pods as kwok's Stages say: files, folders, or 'cluster' for its own.",
        ),
    ),
)
"""Adds the options to a command, which takes them as ``hollow``."""
