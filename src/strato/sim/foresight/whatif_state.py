"""`with_late_pods`: adds the pods of pod groups that wait to be admitted, as a forecast needs them earlier.

In a cluster the job controller makes a job's pods once its pod group is admitted. Here the controllers make those of
the Volcano jobs in the state on a private cluster (`strato.sim.expansion`). Other pod groups without pods get
``minMember`` pods, each with an equal part of ``minResources``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from strato.api import catalog
from strato.api.meta import Json
from strato.api.volcano.scheduling import GROUP_ANNOTATION, GROUP_NOT_STARTED
from strato.scheduler.cache.ingest import ROLE_KEY
from strato.scheduler.dryrun.manifests import Located
from strato.scheduler.dryrun.states import ManifestState
from strato.scheduler.model.resources import internal, to_quantity

_MOST_PODS: Final = 100_000


def with_late_pods(state: ManifestState, now: float) -> tuple[ManifestState, Sequence[str]]:
    """Add pods to a state's pod groups that wait and have none.

    Args:
        state: The state.
        now: Seconds since the epoch.

    Returns:
        The state with the pods, and notes about them for the user.
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
    """Return the name of each pod group's job for the user: key of a pod group → ``namespace/name``."""
    return {
        "/".join(_name(obj)): "/".join(owner)
        for _, obj in objects
        if _is(obj, catalog.PODGROUP) and (owner := _job_of(obj))
    }


def _late_groups(objects: Sequence[Located]) -> list[Json]:
    """Return the pod groups that wait and have no pods."""
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
        if (group.get("status") or {}).get("phase", "") in GROUP_NOT_STARTED and _name(group) not in with_pods
    ]


def _is(obj: Json, kind: Any) -> bool:
    version = str(obj.get("apiVersion", ""))
    return obj.get("kind") == kind.name and version in ("", kind.api_version) and isinstance(obj.get("metadata"), dict)


def _name(obj: Json) -> tuple[str, str]:
    meta = obj["metadata"]
    return str(meta.get("namespace") or "default"), str(meta.get("name"))


def _job_of(group: Json) -> tuple[str, str]:
    """Return namespace and name of a pod group's controller, or its own if it has none."""
    namespace, name = _name(group)
    owners = group["metadata"].get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") and owner.get("name"):
            return namespace, str(owner["name"])
    return namespace, name


def _dated(obj: Json, dates: Mapping[tuple[str, str], Any]) -> Json:
    """Return a pod or pod group made for a job with the creation time of its pod group in the state.

    Jobs of a queue are ordered by it.
    """
    if not dates or not (_is(obj, catalog.POD) or _is(obj, catalog.PODGROUP)):
        return obj
    date = dates.get(_job_of(obj))
    return obj if date is None else {**obj, "metadata": {**obj["metadata"], "creationTimestamp": date}}


def _pods_of(group: Json) -> list[Located]:
    """Return the fewest pods with which a pod group can start."""
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
    """Return the task name of each of ``count`` pods, by ``minTaskMember``; empty if the group names no tasks."""
    wanted = spec.get("minTaskMember")
    roles: list[str] = []
    for role, least in wanted.items() if isinstance(wanted, dict) else ():
        if isinstance(least, int) and 0 < least <= _MOST_PODS:
            roles += [str(role)] * least
    return roles + [roles[-1] if roles else ""] * (count - len(roles))
