"""One round of decisions: build the events, call the handlers in order, and merge their actions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from strato.agent.classquota import ClassQuota
from strato.agent.containers import ContainerFacts, service_of
from strato.agent.decisions.merging import merge
from strato.agent.events import Action, ContainerEvent, HostEvent, Suppression
from strato.agent.handlers import Handler
from strato.agent.handlers.hotspots import Hotspots
from strato.agent.policy import AgentPolicy
from strato.agent.sampling.sampler import Sampler
from strato.seeding import child

_log = logging.getLogger(__name__)


def host_event(
    sampler: Sampler, at: float, since: float, containers: Sequence[ContainerEvent], best_effort: ClassQuota
) -> HostEvent | None:
    """Return the host's event from the samples since an instant; None without samples.

    Args:
        sampler: Holds the samples.
        at: Present time in seconds since the epoch.
        since: The instant in monotonic seconds.
        containers: Events of all running containers.
        best_effort: The quota of best-effort pods as read in this round.
    """
    host = sampler.host
    cpu = host.cpu.mean_since(since)
    if cpu is None or sampler.has_gap:
        return None
    return HostEvent(
        at=at,
        capacity_cores=sampler.cpus,
        cpu=cpu,
        memory=host.memory.mean_since(since) or 0.0,
        network_receive=host.receive.mean_since(since) or 0.0,
        network_send=host.send.mean_since(since) or 0.0,
        containers=tuple(containers),
        best_effort_milli=best_effort.milli,
        has_best_effort_group=best_effort.has_group,
    )


def container_events(
    sampler: Sampler,
    facts: Iterable[ContainerFacts],
    at: float,
    since: float,
    suppression_of: Callable[[ContainerFacts], Suppression | None],
) -> list[ContainerEvent]:
    """Return the events of the containers sampled since an instant."""
    events = []
    for one in facts:
        samples = sampler.containers.get(one.key)
        used = samples.cpu.mean_since(since) if samples is not None else None
        if samples is None or used is None:
            continue
        pod = one.pod
        owners = pod.metadata.owner_references or ()
        events.append(
            ContainerEvent(
                at=at,
                pod_uid=pod.metadata.uid,
                namespace=pod.metadata.namespace,
                pod=pod.metadata.name,
                container=one.name,
                id=one.id,
                priority=pod.spec.priority or 0,
                workload=one.workload,
                used_cores=used,
                throttled_ratio=samples.throttled_ratio,
                limit_milli=samples.quota.milli,
                base_milli=one.base_milli,
                request_milli=one.request_milli,
                start_time=one.started_at,
                is_guaranteed=one.qos == "Guaranteed",
                is_best_effort=one.is_best_effort,
                has_exclusive_cpus=one.has_exclusive_cpus,
                is_sidecar=one.is_sidecar,
                suppression=suppression_of(one),
                ip=pod.status.pod_ip,
                service=service_of(pod),
                job=next((owner.uid for owner in owners if owner.controller), ""),
                annotations=pod.metadata.annotations or {},
            )
        )
    return events


class HandlerSet:
    """The handlers of a policy, kept from round to round.

    Args:
        policy: The handlers and their options.
        random: Seeds the handlers' generators.
        before: The set to replace, from which handlers with unchanged class and options are taken over.
    """

    def __init__(self, policy: AgentPolicy, random: Random, before: HandlerSet | None = None) -> None:
        self.errors: int = before.errors if before is not None else 0
        """How often a handler was skipped because it raised."""
        self.handlers: dict[str, Handler] = {}
        old: Mapping[str, Handler] = before.handlers if before is not None else {}
        for name, wanted in policy.handlers.items():
            known = old.get(name)
            if known is not None and type(known) is wanted.kind and known.options == wanted.options:
                self.handlers[name] = known
                continue
            try:
                self.handlers[name] = wanted.kind(wanted.options, child(random))
            except Exception as error:  # code of others
                self._count(name, error)

    @property
    def levels(self) -> Mapping[str, object]:
        """Return the levels of the handler ``hotspots``; empty if it is off."""
        found = self.handlers.get(Hotspots.name)
        return found.levels if isinstance(found, Hotspots) else {}

    def decide(self, host: HostEvent) -> list[Action]:
        """Call all handlers, first for the host, then for each container; one that raises is skipped for the round."""
        found: list[Action] = []
        for name, handler in self.handlers.items():
            try:
                own = list(handler.on_host(host))
                for container in host.containers:
                    own += handler.on_container(container)
                if not all(isinstance(action, Action) for action in own):
                    raise TypeError("a handler returns a sequence of Action")
            except Exception as error:  # code of others
                self._count(name, error)
                continue
            found += own
        return merge(found)

    def may_skip(self) -> bool:
        """Return whether all handlers allow skipping rounds with the same events as the last one."""
        try:
            return all(handler.may_skip() for handler in self.handlers.values())
        except Exception as error:  # code of others
            _log.warning("no round is left out: %s: %s", type(error).__name__, error)
            return False

    def _count(self, name: str, error: Exception) -> None:
        self.errors += 1
        _log.warning("handler skipped: handler=%s: %s: %s", name, type(error).__name__, error)
