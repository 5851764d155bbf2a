"""Sets the requests of new pods to what the vertical autoscaler of their workload recommends, unless its mode is Off.

Limits change in proportion, within the container's policy and the namespace's LimitRanges. Two annotations record what
was changed and why. Source: the vertical pod autoscaler's admission controller (spec utilisation 6.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from strato.admission.request import AdmissionReader, AdmissionRequest, Json
from strato.api import catalog
from strato.api.core import ResourceRequirements
from strato.api.meta import Key, ObjectMeta, OwnerReference
from strato.api.recommended import follow, is_target, managers, nanos_of, scale
from strato.api.verticalautoscaling import VerticalPodAutoscaler

PATH: Final = "/pods/recommended/mutate"
"""Path of the webhook service; off unless named, because the cluster may have another autoscaler's webhook."""
UPDATES: Final = "vpaUpdates"
OBSERVED: Final = "vpaObservedContainers"
ANNOTATIONS: Final = frozenset((UPDATES, OBSERVED))


def recommend(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Set the resources of a new pod's containers to the recommendation of its workload's autoscaler, in place."""
    pod = request.object
    assert pod is not None
    autoscalers = reader.list(catalog.VERTICALPODAUTOSCALER, request.namespace)
    if not autoscalers:
        return
    owner = msgspec.convert(pod["metadata"], ObjectMeta).controller
    found = _autoscaler_of(owner, request.namespace, autoscalers, reader) if owner is not None else None
    if found is None:
        return
    containers = pod["spec"]["containers"]
    annotations = dict(pod["metadata"].get("annotations") or {})
    annotations[OBSERVED] = ", ".join(one["name"] for one in containers)
    updates = _follow(found, containers, reader.list(catalog.LIMITRANGE, request.namespace))
    if updates:
        annotations[UPDATES] = f"Pod resources updated by {found.metadata.name}: {'; '.join(updates)}"
    pod["metadata"]["annotations"] = annotations


def _autoscaler_of(
    owner: OwnerReference, namespace: str, autoscalers: Iterable[Json], reader: AdmissionReader
) -> VerticalPodAutoscaler | None:
    """Return the autoscaler of the workload at the top of an owner's chain of controllers; the oldest of several."""

    def owner_of(key: Key) -> OwnerReference | None:
        found = reader.get(catalog.REPLICASET, *key)
        return msgspec.convert(found["metadata"], ObjectMeta).controller if found is not None else None

    above = tuple(managers(namespace, owner, owner_of))
    views = (msgspec.convert(one, VerticalPodAutoscaler) for one in autoscalers)
    served = [
        one
        for one in views
        if one.spec.update_policy.update_mode != "Off"
        and any(is_target(one.spec.target_ref, manager) for manager in above)
    ]
    return min(served, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), default=None)


def _follow(autoscaler: VerticalPodAutoscaler, containers: list[Json], ranges: Iterable[Json]) -> list[str]:
    """Change the containers, and return what was changed of each."""
    advice = autoscaler.status.recommendation
    if advice is None:
        return []
    items = [item for one in ranges for item in (one.get("spec") or {}).get("limits") or ()]
    bounds = {kind: [item for item in items if item.get("type") == kind] for kind in ("Container", "Pod")}
    known = {container["name"]: container for container in containers}
    policy = autoscaler.spec.resource_policy
    targets = {
        one.container_name: one.target
        for one in advice.container_recommendations
        if one.container_name in known and policy.of(one.container_name).mode != "Off"
    }
    for item in bounds["Pod"]:
        targets = _within_pod(item, targets, known, autoscaler)
    least, most = (_tightest(bounds["Container"], member) for member in ("min", "max"))
    updates = []
    for index, container in enumerate(containers):
        name = container["name"]
        if name not in targets:
            continue
        done = follow(_resources(container), targets[name], policy.of(name), least=least, most=most)
        resources = container["resources"] = dict(container.get("resources") or {})
        changed = list(done.notes)
        for section, amounts in (("requests", done.requests), ("limits", done.limits)):
            if amounts:
                resources[section] = {**(resources.get(section) or {}), **amounts}
                changed += [f"{resource} {section[:-1]}" for resource in amounts]
        updates.append(f"container {index}: {', '.join(changed)}")
    return updates


def _within_pod(
    item: Json,
    targets: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Json],
    autoscaler: VerticalPodAutoscaler,
) -> dict[str, Mapping[str, str]]:
    """Return the targets, changed so that the pod as a whole keeps within a LimitRange."""
    bounded = dict(targets)
    for name in ("cpu", "memory"):
        limits = requests = 0
        for container, body in known.items():
            asked = _resources(body)
            policy = autoscaler.spec.resource_policy.of(container)
            done = follow(asked, bounded.get(container, {}), policy)
            limits += nanos_of({**asked.limits, **done.limits}, name)
            requests += nanos_of({**asked.requests, **done.requests}, name)
        least, most = nanos_of(item.get("min") or {}, name), nanos_of(item.get("max") or {}, name)
        if requests and least > requests:
            bounded = {one: scale(target, name, least, requests) for one, target in bounded.items()}
        elif most and limits > most:
            bounded = {one: scale(target, name, most, limits) for one, target in bounded.items()}
    return bounded


def _tightest(items: Iterable[Json], member: str) -> dict[str, str]:
    """Return the largest ``min`` or the smallest ``max`` of several."""
    found: dict[str, str] = {}
    for item in items:
        for name in item.get(member) or ():
            texts = [amount for amount in (item[member], found) if name in amount]
            choose = max if member == "min" else min
            found[name] = choose(texts, key=lambda amounts, name=name: nanos_of(amounts, name))[name]  # type: ignore[misc]  # mypy infers no defaults
    return found


def _resources(container: Json) -> ResourceRequirements:
    return msgspec.convert(container.get("resources") or {}, ResourceRequirements)
