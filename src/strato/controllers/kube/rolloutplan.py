"""How many pods each ReplicaSet of a Deployment should have now, and how far a rollout has got. Pure.

Source: apps/v1 Deployment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from strato.api.apps import Deployment, DeploymentCondition
from strato.clock import format_time, parse_time

_NO_DEADLINE = 2**31 - 1
_DONE, _LATE = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


@dataclass(frozen=True, slots=True)
class Scale:
    """A ReplicaSet in a rollout."""

    name: str
    replicas: int
    """Its ``spec.replicas``."""
    available: int
    current: int
    """Pods that exist."""
    most: int = 0
    """Most pods that the whole Deployment was allowed when this ReplicaSet was last scaled; 0 is unknown."""


def resolve_bounds(replicas: int, surge: int | str | None, unavailable: int | str | None) -> tuple[int, int]:
    """Return maxSurge (rounded up) and maxUnavailable (rounded down) in pods; at least one of them is positive."""
    most = portion("25%" if surge is None else surge, replicas, up=True)
    least = portion("25%" if unavailable is None else unavailable, replicas, up=False)
    if most == 0 and least == 0:
        least = 1
    return most, min(least, replicas)


def portion(value: int | str, whole: int, *, up: bool) -> int:
    """Return a number of pods, or a percentage of them rounded up or down, in pods."""
    if isinstance(value, int):
        return value
    exact = whole * int(value.rstrip("%") or 0) / 100
    return math.ceil(exact) if up else math.floor(exact)


def plan_scales(
    replicas: int, new: Scale, old: Sequence[Scale], *, recreate: bool, surge: int, unavailable: int
) -> dict[str, int]:
    """Decide the replicas of the new and the old ReplicaSets (oldest first); only differences are returned."""
    wanted: dict[str, int] = {}
    if recreate:
        wanted.update((scale.name, 0) for scale in old)
        if not any(scale.current for scale in old):
            wanted[new.name] = replicas
        return _differences(wanted, (new, *old))
    total = new.replicas + sum(scale.replicas for scale in old)
    room = replicas + surge - total
    if new.replicas > replicas or not old:
        wanted[new.name] = replicas
    elif room > 0:
        wanted[new.name] = min(replicas, new.replicas + room)
    least = replicas - unavailable
    surplus = total - least - (new.replicas - new.available)
    if surplus <= 0:
        return _differences(wanted, (new, *old))
    spare = sum(s.available for s in old) + min(new.available, replicas) - least
    for scale in old:
        idle = max(0, min(surplus, scale.replicas - scale.available))  # scale down unavailable pods first
        surplus -= idle
        drop = min(scale.replicas, idle + max(0, min(spare, scale.available)))
        spare -= max(0, drop - idle)
        wanted[scale.name] = scale.replicas - drop
    return _differences(wanted, (new, *old))


def plan_resize(replicas: int, new: Scale | None, old: Sequence[Scale], *, surge: int) -> dict[str, int]:
    """Decide the replicas when the Deployment itself was scaled, or is paused: each ReplicaSet keeps its share.

    Args:
        replicas: ``spec.replicas`` of the Deployment.
        new: The ReplicaSet of its present template, if there is one.
        old: The other ReplicaSets, oldest first.
        surge: By how many pods a rollout may exceed ``replicas``.
    """
    every = [*old, *([new] if new is not None else [])]
    active = [scale for scale in every if scale.replicas > 0]
    if len(active) <= 1:
        return {one.name: replicas for one in active or every[-1:] if one.replicas != replicas}
    if new is not None and new.replicas == new.available == replicas:
        return {scale.name: 0 for scale in active if scale is not new}
    most = replicas + surge if replicas else 0
    left = most - sum(scale.replicas for scale in active)
    if left > 0:
        active.reverse()  # between equal ReplicaSets, scaling up prefers the newer one and scaling down the older one
    active.sort(key=lambda scale: -scale.replicas)
    wanted: dict[str, int] = {}
    for scale in active:
        share = round(scale.replicas * most / (scale.most or most or 1)) - scale.replicas
        change = max(0, min(share, left)) if left > 0 else min(0, max(share, left))
        left -= change
        wanted[scale.name] = scale.replicas + change
    wanted[active[0].name] = max(0, wanted[active[0].name] + left)
    return _differences(wanted, active)


def _differences(wanted: Mapping[str, int], scales: Sequence[Scale]) -> dict[str, int]:
    present = {scale.name: scale.replicas for scale in scales}
    return {name: count for name, count in wanted.items() if present[name] != count}


def plan_progress(
    deployment: Deployment, counts: Mapping[str, int], new: str, now: float
) -> tuple[dict[str, str] | None, float | None]:
    """Return the condition Progressing (None without a deadline), and the seconds until the deadline has passed.

    Args:
        deployment: The Deployment, with its previous status.
        counts: The new counters of its status.
        new: Name of the ReplicaSet of its template, empty while there is none.
        now: Seconds since the epoch.
    """
    spec, old = deployment.spec, deployment.status
    known = next((c for c in old.conditions if c.type == "Progressing"), None)
    if spec.progress_deadline_seconds >= _NO_DEADLINE:
        return None, None
    reason = known.reason if known is not None else ""
    name = f'ReplicaSet "{new}"' if new else f'Deployment "{deployment.metadata.name}"'
    if spec.paused and reason != _LATE:
        text = "Deployment is paused"
        return (condition(known, "Progressing", "Unknown", _PAUSED, text, now), None)
    if reason == _PAUSED:
        return condition(known, "Progressing", "Unknown", _RESUMED, "Deployment is resumed", now), 0.0
    updated, replicas = counts["updatedReplicas"], counts["replicas"]
    if updated == replicas == spec.replicas and counts["availableReplicas"] >= spec.replicas:
        return condition(known, "Progressing", "True", _DONE, f"{name} has successfully progressed.", now), None
    assert known is not None or not reason
    if known is None or (reason == _DONE and updated != replicas):
        why, text = ("NewReplicaSetCreated", f'Created new replica set "{new}"') if new else ("ReplicaSetUpdated", name)
        return condition(known, "Progressing", "True", why, text, now), float(spec.progress_deadline_seconds)
    if reason == _DONE:
        return msgspec.to_builtins(known), None  # the rollout had ended; scaling or a failed pod begins no new one
    if (
        updated > old.updated_replicas
        or replicas - updated < old.replicas - old.updated_replicas
        or counts["readyReplicas"] > old.ready_replicas
        or counts["availableReplicas"] > old.available_replicas
    ):
        text = f"{name} is progressing."
        moved = condition(known, "Progressing", "True", "ReplicaSetUpdated", text, now)
        return moved | {"lastUpdateTime": format_time(now)}, float(spec.progress_deadline_seconds)
    left = parse_time(known.last_update_time or format_time(now)) + spec.progress_deadline_seconds - now
    if left < 0 and reason != _LATE:
        return condition(known, "Progressing", "False", _LATE, f"{name} has timed out progressing.", now), None
    return msgspec.to_builtins(known), max(left, 0.0) + 1.0 if reason != _LATE else None


def condition(
    known: DeploymentCondition | None, type_: str, status: str, reason: str, message: str, now: float
) -> dict[str, str]:
    """Return a condition; its times are those of the known one as far as nothing has changed."""
    time = format_time(now)
    if known is not None and (known.status, known.reason) == (status, reason):
        same: dict[str, str] = msgspec.to_builtins(known)
        return same | {"message": message}
    since = known.last_transition_time if known is not None and known.status == status else None
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": time,
        "lastTransitionTime": since or time,
    }
