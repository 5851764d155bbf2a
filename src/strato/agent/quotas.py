"""Carry out decisions on CPU quotas: write the pod's annotation first, from which a restart continues, then the kernel.

A quota that another program has changed is written again; after three such rounds in a row it is left to that program.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from strato.agent.containers import ContainerFacts, read_annotation, write_annotation
from strato.agent.events import QUOTA_CONFLICT, RESTORED, SUPPRESSED, Action, ActionKind, Suppression
from strato.agent.sampling.groupfiles import Quota, read_quota, write_quota
from strato.agent.sampling.layouts import CgroupLayout, ControlGroup
from strato.agent.yielding import Yielding
from strato.api import catalog
from strato.api.core import Pod
from strato.api.suppression import SUPPRESSED_CONTAINERS
from strato.client.cluster import Cluster, PatchType
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.errors import ApiError, one_line

_log = logging.getLogger(__name__)

_CONFLICT_ROUNDS: Final = 3
_ROUNDING_MILLI: Final = 10
"""Tolerance of comparisons: quotas in periods of other lengths cannot express every millicore."""


@dataclass(slots=True)
class _Expected:
    """The quota that this agent has written for a container."""

    id: str
    milli: int | None
    conflicts: int = 0
    """Consecutive rounds in which the kernel had another value."""
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """Measurements of a container on which a round decided."""

    utilisation: float
    """Used fraction of the host's CPU."""
    used_cores: float


class QuotaWriter:
    """Writes the quotas of one node's containers.

    Args:
        cluster: Pods there are annotated and resized.
        layout: Finds control groups.
        events: Reports events on pods.
        yielding: Makes containers idle; None uses the kernel's files.
        offload: Runs a blocking function in a thread and awaits it; simulations call it directly, as their clock would
            stand still.
    """

    def __init__(
        self,
        cluster: Cluster,
        layout: CgroupLayout,
        events: EventRecorder,
        *,
        yielding: Yielding | None = None,
        offload: Callable[..., Awaitable[Any]] = asyncio.to_thread,
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self._yielding = yielding if yielding is not None else Yielding(layout)
        self._offload = offload
        self._events = events
        self._expected: dict[str, _Expected] = {}
        self._annotations: dict[str, str | None] = {}
        """Annotation last written to each pod, by uid, until the informer has it."""
        self.backend = "cgroup"
        self.rewrites = 0
        """How often a quota that another program had changed was written again."""

    def known_suppression(self, facts: ContainerFacts) -> Suppression | None:
        """Return a container's suppression, from the annotation written last if the informer does not have it yet."""
        uid = facts.pod.metadata.uid
        if uid not in self._annotations:
            return facts.suppression
        text = self._annotations[uid]
        if (facts.pod.metadata.annotations or {}).get(SUPPRESSED_CONTAINERS) == text:
            del self._annotations[uid]  # the informer has the annotation written last
            return facts.suppression
        found = read_annotation({SUPPRESSED_CONTAINERS: text or ""}).get(facts.name)
        return found if found is not None and found.id == facts.id else None

    def verify(self, containers: Iterable[ContainerFacts], quotas: Mapping[str, Quota]) -> list[Action]:
        """Compare the kernel's quotas with the written ones; return actions for those to be written again.

        Args:
            containers: All running containers.
            quotas: The quotas just read, by key.
        """
        actions = []
        running = {}
        for facts in containers:
            running[facts.key] = facts
            cut = self.known_suppression(facts)
            expected = self._expected.get(facts.key)
            if expected is not None and expected.id != facts.id:
                del self._expected[facts.key]
                expected = None
            if expected is None and cut is not None:  # written before the agent restarted
                expected = self._expected[facts.key] = _Expected(facts.id, cut.to_milli)
            quota = quotas.get(facts.key)
            if expected is None or quota is None or expected.is_given_up:
                continue
            if cut is not None and facts.base_milli not in (cut.from_milli, cut.to_milli):
                actions.append(_with_new_limit(facts, cut))
                continue
            if _is_same(quota.milli, expected.milli):
                expected.conflicts = 0
                continue
            expected.conflicts += 1
            if expected.conflicts >= _CONFLICT_ROUNDS:
                expected.is_given_up = True
                text = f"{facts.name}: somebody else sets its CPU quota to {_worded(quota.milli)}; it is left alone"
                self._events.event(facts.pod, WARNING, QUOTA_CONFLICT, text)
            elif cut is not None:
                self.rewrites += 1
                value = expected.milli
                actions.append(Action(kind=ActionKind.SET_QUOTA, target=facts.key, value=value, reason=RESTORED))
            else:  # a burst, which another program ends by setting the quota
                del self._expected[facts.key]
        for key in self._expected.keys() - running.keys():
            del self._expected[key]
        for uid in self._annotations.keys() - {facts.pod.metadata.uid for facts in running.values()}:
            del self._annotations[uid]
        return actions

    def holds(self, key: str) -> bool:
        """Return whether this agent owns a container's quota, because the container is cut or bursts."""
        expected = self._expected.get(key)
        return expected is not None and not expected.is_given_up

    def is_given_up(self, facts: ContainerFacts) -> bool:
        """Return whether a container's quota was left to another program."""
        expected = self._expected.get(facts.key)
        return expected is not None and expected.id == facts.id and expected.is_given_up

    async def apply(
        self,
        actions: Iterable[Action],
        containers: Mapping[str, ContainerFacts],
        states: Mapping[str, RoundState],
        at: float,
    ) -> list[Action]:
        """Carry out actions on quotas, concurrently for all pods, so that no cut waits for other pods' annotations.

        Args:
            actions: At most one per container.
            containers: All running containers, by key.
            states: Measurements of the containers, by key.
            at: Present time in seconds since the epoch.

        Returns:
            The actions that succeeded.
        """
        running = _by_pod(containers.values())
        by_pod: dict[str, list[tuple[ContainerFacts, Action]]] = {}
        for action in actions:
            facts = containers.get(action.target)
            if facts is not None and not self.is_given_up(facts):
                by_pod.setdefault(facts.pod.metadata.uid, []).append((facts, action))
        calls = (self._apply_to_pod(pairs, running[uid], states, at) for uid, pairs in by_pod.items())
        return [action for done in await asyncio.gather(*calls) for action in done]

    def settle(self, containers: Iterable[ContainerFacts]) -> None:
        """Restore the idle state of containers by their annotation: a restarted container has a new group."""
        for running in _by_pod(containers).values():
            if SUPPRESSED_CONTAINERS in (running[0].pod.metadata.annotations or {}):
                self._yielding.settle(running, self._entries(running[0].pod), {})

    async def _apply_to_pod(
        self,
        pairs: list[tuple[ContainerFacts, Action]],
        running: list[ContainerFacts],
        states: Mapping[str, RoundState],
        at: float,
    ) -> list[Action]:
        pod = pairs[0][0].pod
        before = self._entries(pod)
        after = dict(before)
        for facts, action in pairs:
            entry = self._entry(facts, action, after, states.get(facts.key), at)
            if entry is not None:
                after[facts.name] = entry
        if after != before and not await self._annotate(pod, after):
            return []
        done = []
        for facts, action in pairs:
            milli = None if action.value is None else int(action.value)
            if await self._write(facts, milli):
                done.append(action)
                if action.message:
                    self._events.event(pod, NORMAL, action.reason, f"{facts.name}: {action.message}")
                if action.kind is ActionKind.CLEAR:
                    after.pop(facts.name, None)
                    self._expected.pop(facts.key, None)
            elif action.reason == SUPPRESSED:
                after.pop(facts.name, None)
        ended = {name: entry for name, entry in before.items() if name not in after}
        await self._offload(self._yielding.settle, running, after, ended)
        if after != self._entries(pod):
            await self._annotate(pod, after)
        return done

    def _entries(self, pod: Pod) -> dict[str, Suppression]:
        text = self._annotations.get(pod.metadata.uid, (pod.metadata.annotations or {}).get(SUPPRESSED_CONTAINERS))
        return read_annotation({SUPPRESSED_CONTAINERS: text or ""})

    def _entry(
        self,
        facts: ContainerFacts,
        action: Action,
        entries: Mapping[str, Suppression],
        state: RoundState | None,
        at: float,
    ) -> Suppression | None:
        """Return a container's new entry of the annotation; None if it does not change."""
        known = entries.get(facts.name)
        if action.kind is not ActionKind.SET_QUOTA or action.value is None:
            return None
        if action.reason == RESTORED and known is not None:
            origin = facts.base_milli if facts.base_milli != known.to_milli else known.from_milli
            return replace(known, to_milli=int(action.value), from_milli=origin)
        if action.reason != SUPPRESSED or state is None:
            return None
        weight, pod_weight = self._yielding.weights(facts, entries.values()) if action.gives_way else (None, None)
        return Suppression(
            id=facts.id,
            from_milli=facts.base_milli,
            to_milli=int(action.value),
            at=at,
            utilisation=state.utilisation,
            used_milli=round(state.used_cores * 1000),
            weight=weight,
            pod_weight=pod_weight,
        )

    async def _annotate(self, pod: Pod, entries: Mapping[str, Suppression]) -> bool:
        text = write_annotation(entries)
        body = {"metadata": {"uid": pod.metadata.uid, "annotations": {SUPPRESSED_CONTAINERS: text}}}
        try:
            await self._cluster.patch(catalog.POD, pod.metadata.name, pod.metadata.namespace, body)
        except ApiError as error:
            _log.warning("pod not annotated, its quota stays: pod=%s: %s", pod.metadata.key, error)
            return False
        self._annotations[pod.metadata.uid] = text
        return True

    async def _write(self, facts: ContainerFacts, milli: int | None) -> bool:
        """Set a container's quota: by the API if the backend is ``resize`` and the pod can, else in the kernel."""
        if self.backend == "resize" and milli is not None and _can_resize(facts, milli):
            body = {"spec": {"containers": [{"name": facts.name, "resources": {"limits": {"cpu": f"{milli}m"}}}]}}
            meta = facts.pod.metadata
            try:
                await self._cluster.patch(
                    catalog.POD, meta.name, meta.namespace, body, subresource="resize", patch_type=PatchType.STRATEGIC
                )
            except ApiError as error:
                _log.warning("not resized: pod=%s container=%s: %s", meta.key, facts.name, error)
                return False
            self._expect(facts, milli)
            return True
        quota = await self._offload(self.write_group, facts, milli)
        if quota is None:
            return False
        self._expect(facts, quota.milli)
        return True

    def write_group(self, facts: ContainerFacts, milli: int | None) -> Quota | None:
        """Write a container's quota to the kernel; return the quota then in force, None if the kernel refuses."""
        uid = facts.pod.metadata.uid
        group = self._layout.container(uid, facts.qos, facts.name, facts.id)
        if group is None:
            return None
        try:
            return _write_both(group, self._layout.pod(uid, facts.qos), milli)
        except (OSError, ValueError) as error:
            _log.info("quota not written: pod=%s container=%s: %s", facts.pod.metadata.key, facts.name, one_line(error))
            return None

    def _expect(self, facts: ContainerFacts, milli: int | None) -> None:
        """Record the quota that the kernel is expected to have from now on."""
        expected = self._expected.get(facts.key)
        if expected is None or expected.id != facts.id:
            self._expected[facts.key] = _Expected(facts.id, milli)
        else:
            expected.milli = milli


def _by_pod(containers: Iterable[ContainerFacts]) -> dict[str, list[ContainerFacts]]:
    found: dict[str, list[ContainerFacts]] = {}
    for one in containers:
        found.setdefault(one.pod.metadata.uid, []).append(one)
    return found


def _with_new_limit(facts: ContainerFacts, cut: Suppression) -> Action:
    """Return the action after a cut container's limit in the pod has changed: the cut ends if the limit is lower."""
    if facts.base_milli is not None and facts.base_milli <= cut.to_milli:
        return Action(kind=ActionKind.CLEAR, target=facts.key, value=facts.base_milli, reason=RESTORED)
    return Action(kind=ActionKind.SET_QUOTA, target=facts.key, value=cut.to_milli, reason=RESTORED)


def _write_both(group: ControlGroup, pod: ControlGroup | None, milli: int | None) -> Quota:
    """Set a container's quota and change its pod's by the same amount: the pod's first if it grows, last if it shrinks.

    Raises:
        OSError, ValueError: The kernel refuses the container's quota.
    """
    before = read_quota(group).milli
    around = _quota_of(pod)
    moved = None if around is None or before is None or milli is None else around + milli - before
    grows = moved is not None and around is not None and moved > around
    if pod is not None and moved is not None and grows:
        write_quota(pod, moved)
    after = write_quota(group, milli)
    if pod is not None and moved is not None and not grows:
        write_quota(pod, moved)
    return after


def _quota_of(group: ControlGroup | None) -> int | None:
    try:
        return None if group is None else read_quota(group).milli
    except (OSError, ValueError):
        return None


def _can_resize(facts: ContainerFacts, milli: int) -> bool:
    """Return whether a resize may set a limit: the pod has one, keeps its QoS class, and requests no more than it."""
    return facts.base_milli is not None and facts.qos == "Burstable" and milli >= facts.request_milli


def _is_same(one: int | None, other: int | None) -> bool:
    return one == other if one is None or other is None else abs(one - other) <= _ROUNDING_MILLI


def _worded(milli: int | None) -> str:
    return "none" if milli is None else f"{milli}m"
