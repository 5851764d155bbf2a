"""Hollow nodes that follow kwok's Stages, or whose pods do."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import AlreadyExists
from strato.node.hollow.behaviour import HollowBehaviour
from strato.node.hollow.stages.model import Stage
from strato.node.hollow.stages.player import StagePlayer, StageScope
from strato.node.hollow.stages.served import ServedStages
from strato.node.registration import NodeFacts, node_body

_FIRST_POD: Final = int(ipaddress.IPv4Address("10.0.0.1"))
_ADDRESSES: Final = 2**24 - 2


class StagedLives:
    """The `StagePlayer` of pods and that of nodes, as far as there are stages for them.

    Args:
        behaviour: Settings, which have the stages.
        facts: Facts of the nodes, by name.
        is_stopped: Returns whether a node has stopped; its stages are paused then.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        behaviour: HollowBehaviour,
        facts: Mapping[str, NodeFacts],
        is_stopped: Callable[[str], bool],
    ) -> None:
        self._clock, self._facts = clock, facts
        self._addresses: dict[str, str] = {}
        self._given = 0
        self.pods = self.nodes = None

        def player(kind: Kind, node_of: Callable[[Json], str], on_gone: Callable[[str], object]) -> StagePlayer:
            scope = StageScope(
                concerns=lambda value: node_of(value) in facts,
                pauses=lambda value: is_stopped(node_of(value)),
                on_gone=on_gone,
            )
            return StagePlayer(cluster, clock, random, kind=kind, stages=behaviour.stages, around=self, scope=scope)

        if behaviour.stages_pods:
            self.pods = player(catalog.POD, _node_of, lambda uid: self._addresses.pop(uid, None))
        if behaviour.stages_nodes:
            self.nodes = player(catalog.NODE, _name_of, lambda _uid: None)
        self._served = ServedStages(cluster, clock, self._take) if behaviour.served_stages else None

    @property
    def players(self) -> list[StagePlayer]:
        """The players."""
        return [player for player in (self.pods, self.nodes) if player is not None]

    def now(self) -> float:
        """Return the time, seconds since the epoch."""
        return self._clock.now()

    def address_of(self, node: str) -> str:
        """Return a node's address; empty for a node that is not one of these."""
        facts = self._facts.get(node)
        return facts.address if facts is not None else ""

    def pod_address(self, uid: str) -> str:
        """Return the address of a pod, the same each time."""
        if uid not in self._addresses:
            self._addresses[uid] = str(ipaddress.IPv4Address(_FIRST_POD + self._given % _ADDRESSES))
            self._given += 1
        return self._addresses[uid]

    def resume(self) -> None:
        """Resume objects that were paused, if their nodes run again."""
        for player in self.players:
            player.resume()

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._served is not None:
                group.create_task(self._served.run())
            for player in self.players:
                group.create_task(player.run())

    def _take(self, stages: Sequence[Stage]) -> None:
        for player in self.players:
            player.set_stages(stages)


async def register_bare(cluster: Cluster, facts: NodeFacts, now: float) -> str:
    """Create a Node with capacity but without conditions, which stages set; return its uid.

    Raises:
        ApiError: The create failed for another reason than that the node exists.
    """
    body = node_body(facts, now)
    del body["status"]["conditions"]
    try:
        created = await cluster.create(catalog.NODE, body)
    except AlreadyExists:
        created = await cluster.get(catalog.NODE, facts.name)
    return str(created["metadata"]["uid"])


def _name_of(node: Json) -> str:
    return str(node["metadata"]["name"])


def _node_of(pod: Json) -> str:
    return str(pod.get("spec", {}).get("nodeName", ""))
