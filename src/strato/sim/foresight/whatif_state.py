"""Pods that are not there yet: a job's pods are made when its group is let in, and a forecast needs them before.

Of Volcano jobs at hand the controllers make them, on a private cluster (`strato.sim.expansion`). Of other groups
without pods as many are taken as they need at least, each with its part of the resources that the group asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from strato.api import catalog
from strato.api.meta import Json
from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.scheduler.cache.ingest import ROLE_KEY
from strato.scheduler.dryrun.manifests import Located
from strato.scheduler.dryrun.states import State
from strato.scheduler.model.resources import internal, to_quantity

_MOST_PODS: Final = 100_000
_WAITING: Final = ("", "Pending", "Inqueue")


def with_late_pods(state: State, now: float) -> tuple[State, Sequence[str]]:
    """Give groups that wait without pods theirs.

    Args:
        state: The state.
        now: Seconds since the epoch.

    Returns:
        The state with pods, and what a person should know about them.
    """
    from strato.sim.expansion import expand

    late = _late_groups(state.objects)
    if not late:
        return state, ()
    jobs = {_name(obj): (where, obj) for where, obj in state.objects if _is(obj, catalog.VCJOB)}
    dates: dict[tuple[str, str], Any] = {}
    given: list[Located] = []
    replaced: set[int] = set()
    for group in late:
        owner = _job_of(group)
        if owner in jobs:
            given.append(jobs[owner])
            dates[owner] = group["metadata"].get("creationTimestamp")
            replaced.add(id(group))
    objects = [(where, obj) for where, obj in state.objects if id(obj) not in replaced]
    notes: list[str] = []
    if given:
        made = expand(objects, given, now)
        objects = [(where, _dated(obj, dates)) for where, obj in made.objects]
        notes += made.notes
    others = [group for group in late if id(group) not in replaced]
    for group in others:
        objects += _pods_of(group)
    if others:
        noun = "group" if len(others) == 1 else "groups"
        notes.append(
            f"{len(others)} pod {noun} without pods: as many are taken as each needs at least, "
            "with equal parts of its minResources"
        )
    return replace(state, objects=objects), notes


def job_names(objects: Sequence[Located]) -> Mapping[str, str]:
    """Return by key of a pod group what its job is called."""
    return {
        "/".join(_name(obj)): "/".join(owner)
        for _, obj in objects
        if _is(obj, catalog.PODGROUP) and (owner := _job_of(obj))
    }


def _late_groups(objects: Sequence[Located]) -> list[Json]:
    """Return the groups that wait and have no pods."""
    with_pods: set[tuple[str, str]] = set()
    groups: list[Json] = []
    for _, obj in objects:
        if _is(obj, catalog.POD):
            annotations = obj["metadata"].get("annotations") or {}
            with_pods.add((_name(obj)[0], str(annotations.get(GROUP_ANNOTATION))))
        elif _is(obj, catalog.PODGROUP):
            groups.append(obj)
    return [
        group
        for group in groups
        if (group.get("status") or {}).get("phase", "") in _WAITING and _name(group) not in with_pods
    ]


def _is(obj: Json, kind: Any) -> bool:
    version = str(obj.get("apiVersion", ""))
    return obj.get("kind") == kind.name and version in ("", kind.api_version) and isinstance(obj.get("metadata"), dict)


def _name(obj: Json) -> tuple[str, str]:
    meta = obj["metadata"]
    return str(meta.get("namespace") or "default"), str(meta.get("name"))


def _job_of(group: Json) -> tuple[str, str]:
    """Return namespace and name of the owner; the group's own without one."""
    namespace, name = _name(group)
    owners = group["metadata"].get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") and owner.get("name"):
            return namespace, str(owner["name"])
    return namespace, name


def _dated(obj: Json, dates: Mapping[tuple[str, str], Any]) -> Json:
    """Give what was made for a job the date of its group before: queues go by it."""
    if not dates or not (_is(obj, catalog.POD) or _is(obj, catalog.PODGROUP)):
        return obj
    date = dates.get(_job_of(obj))
    return obj if date is None else {**obj, "metadata": {**obj["metadata"], "creationTimestamp": date}}


def _pods_of(group: Json) -> list[Located]:
    """Return the least that a group has to be."""
    namespace, name = _name(group)
    spec = group.get("spec") or {}
    least = spec.get("minMember")
    count = least if isinstance(least, int) and 0 < least <= _MOST_PODS else 1
    roles = _roles_of(spec, count)
    amounts = spec.get("minResources")
    requests: dict[str, str] = {}
    for resource, amount in amounts.items() if isinstance(amounts, dict) else ():
        plain = str(resource).removeprefix("requests.")
        if plain not in ("pods", "count/pods") and not plain.startswith("limits."):
            try:
                requests[plain] = to_quantity(plain, -(-internal(plain, amount) // count))
            except (ValueError, OverflowError):
                continue
    meta: Json = {"namespace": namespace, "creationTimestamp": group["metadata"].get("creationTimestamp") or ""}
    annotations = {**(group["metadata"].get("annotations") or {}), GROUP_ANNOTATION: name}
    body: Json = {"schedulerName": "volcano", "containers": [{"name": "main", "resources": {"requests": requests}}]}
    if spec.get("priorityClassName"):
        body["priorityClassName"] = spec["priorityClassName"]
    return [
        (
            f"pod group {namespace}/{name}",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **meta,
                    "name": f"{name}-{number}",
                    "annotations": {**annotations, ROLE_KEY: role} if role else annotations,
                },
                "spec": body,
                "status": {"phase": "Pending"},
            },
        )
        for number, role in enumerate(roles)
    ]


def _roles_of(spec: Json, count: int) -> list[str]:
    """Return the role of each of so many pods, empty for none: of each role as many as the group needs at least."""
    wanted = spec.get("minTaskMember")
    roles: list[str] = []
    for role, least in wanted.items() if isinstance(wanted, dict) else ():
        if isinstance(least, int) and 0 < least <= _MOST_PODS:
            roles += [str(role)] * least
    return roles + [roles[-1] if roles else ""] * (count - len(roles))
