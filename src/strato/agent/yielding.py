"""Makes containers that were cut give way to all others on busy CPUs, and ends that; the record of it is in their pods.

A container's group competes only with others of its pod. So a pod as a whole gives way once all its containers do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from strato.agent.containers import ContainerFacts
from strato.agent.events import Suppression
from strato.agent.sampling.layouts import Group, Layout
from strato.agent.sampling.weights import give_way, read_weight, take_part
from strato.errors import one_line

_log = logging.getLogger(__name__)


class Yielding:
    """See the module.

    Args:
        layout: Knows the groups.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def weights(self, facts: ContainerFacts, entries: Iterable[Suppression]) -> tuple[int | None, int | None]:
        """Return the weights of a container and its pod that are to be restored; None: they are not ours to change.

        Args:
            facts: The container that is cut.
            entries: What the pod's annotation says so far: its weight is known from there once it gives way.
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
        """Bring the groups of one pod to what is recorded; what the kernel refuses is logged.

        Args:
            running: All containers of the pod that run.
            entries: The pod's annotation, by container.
            ended: Entries that go now.
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
    """Return the names of a pod's containers that its annotation says give way."""
    return {
        one.name
        for one in running
        if (entry := entries.get(one.name)) is not None and entry.id == one.id and entry.weight is not None
    }


def _attempt(facts: ContainerFacts, group: Group, change: Callable[[Group], None]) -> None:
    try:
        change(group)
    except (OSError, ValueError) as error:
        key = facts.pod.metadata.key
        _log.info("weight not written: pod=%s container=%s: %s", key, facts.name, one_line(error))
