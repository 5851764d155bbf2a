"""Make the groups of suppressed containers idle, and undo that; the pods' annotations record it.

A container's group competes only with others of its pod. Therefore the pod's group is made idle once all its containers
are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from strato.agent.containers import ContainerFacts
from strato.agent.events import Suppression
from strato.agent.sampling.layouts import CgroupLayout, ControlGroup
from strato.agent.sampling.weights import give_way, read_weight, take_part
from strato.errors import one_line

_log = logging.getLogger(__name__)


class Yielding:
    """Makes groups of containers and pods idle, and undoes that.

    Args:
        layout: Finds the groups.
    """

    def __init__(self, layout: CgroupLayout) -> None:
        self._layout = layout

    def weights(self, facts: ContainerFacts, entries: Iterable[Suppression]) -> tuple[int | None, int | None]:
        """Return the weights to restore for a container and its pod later; None for groups that cannot be changed.

        Args:
            facts: The suppressed container.
            entries: The present entries of the pod's annotation, which have the pod's weight once its group is idle.
        """
        uid = facts.pod.metadata.uid
        own = self._layout.container(uid, facts.qos, facts.name, facts.id)
        around = self._layout.pod(uid, facts.qos)
        known = next((one.pod_weight for one in entries if one.pod_weight is not None), None)
        of_pod = known if known is not None or around is None else read_weight(around)
        return (None if own is None else read_weight(own)), of_pod

    def settle(
        self, running: Sequence[ContainerFacts], entries: Mapping[str, Suppression], ended: Mapping[str, Suppression]
    ) -> None:
        """Make the groups of one pod idle or not, as recorded; refusals by the kernel are logged.

        Args:
            running: All running containers of the pod.
            entries: Entries of the pod's annotation, by container.
            ended: Entries that are being removed.
        """
        yields = who_gives_way(running, entries)
        for one in running:
            before = ended.get(one.name)
            group = self._layout.container(one.pod.metadata.uid, one.qos, one.name, one.id)
            if group is None:
                continue
            if one.name in yields:
                _attempt(one, group, give_way)
            elif before is not None and before.id == one.id and before.weight is not None:
                weight = before.weight
                _attempt(one, group, lambda it, weight=weight: take_part(it, weight))  # type: ignore[misc]  # a default
        self._settle_pod(running, yields, (*entries.values(), *ended.values()))

    def _settle_pod(self, running: Sequence[ContainerFacts], yields: set[str], entries: Iterable[Suppression]) -> None:
        weight = next((one.pod_weight for one in entries if one.pod_weight is not None), None)
        if weight is None or not running:
            return
        first = running[0]
        group = self._layout.pod(first.pod.metadata.uid, first.qos)
        if group is None:
            return
        if yields and all(one.is_sidecar or one.name in yields for one in running):
            _attempt(first, group, give_way)
        else:
            _attempt(first, group, lambda it: take_part(it, weight))


def who_gives_way(running: Iterable[ContainerFacts], entries: Mapping[str, Suppression]) -> set[str]:
    """Return the names of a pod's containers that its annotation records as idle."""
    return {
        one.name
        for one in running
        if (entry := entries.get(one.name)) is not None and entry.id == one.id and entry.weight is not None
    }


def _attempt(facts: ContainerFacts, group: ControlGroup, change: Callable[[ControlGroup], None]) -> None:
    try:
        change(group)
    except (OSError, ValueError) as error:
        key = facts.pod.metadata.key
        _log.info("weight not written: pod=%s container=%s: %s", key, facts.name, one_line(error))
