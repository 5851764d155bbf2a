"""Kubernetes' rules about volumes: binding, zones, limits of CSI drivers, one-pod claims. For `predicates`.

Filters judge all nodes at once. `reserve` makes the same choice for one node, as a reservation until the pod is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strato.api.claims import NO_PROVISIONER, ONE_POD, SELECTED_NODE, claims_of, class_name_of, is_bound, size_of, suits
from strato.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim
from strato.api.quantity import InvalidQuantity, value
from strato.scheduler.cache.world import World
from strato.scheduler.claims.volumes import Volumes
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodelabels import ZONE_LABELS
from strato.scheduler.model.nodes import Mask, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.tasks import COMPLETED_SET

NO_MATCH = Reason("predicates", "node(s) didn't find available persistent volumes to bind", curable=False)
WRONG_NODE = Reason("predicates", "node(s) didn't match PersistentVolume's node affinity", curable=False)
NO_SPACE = Reason("predicates", "node(s) did not have enough free storage", curable=False)
NO_VOLUME = Reason(
    "predicates", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", curable=False
)
WRONG_ZONE = Reason("predicates", "node(s) had no available volume zone", curable=False)
TOO_MANY = Reason("predicates", "node(s) exceed max volume count")
IN_USE = Reason(
    "predicates", "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

_REASONS = (WRONG_NODE, NO_VOLUME, NO_MATCH, NO_SPACE)


def pre_filter(volumes: Volumes, task: Task) -> str:
    """Return why no node fits, empty when one may: a claim that is missing, lost, terminating or not bound yet."""
    for used in claims_of(task.pod):
        claim = volumes.claims.get(used.key)
        if claim is None:
            if used.ephemeral:
                return (
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                    f'"{used.name}" of pod "{task.key}"'
                )
            return f'persistentvolumeclaim "{used.name}" not found'
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{used.name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{used.name}" is being deleted'
        if used.ephemeral and (claim.metadata.controller is None or claim.metadata.controller.uid != task.uid):
            return f'PVC "{used.key}" was not created for pod "{task.key}" (pod is not owner)'
        if not is_bound(claim) and (claim.spec.volume_name or not volumes.waits_for_consumer(claim)):
            return UNBOUND
    return ""


def filter_in_use(volumes: Volumes, task: Task, rows: Rows) -> Verdicts | None:
    """Reject all rows while another pod with a node uses a claim that is for one pod only."""
    for used in claims_of(task.pod):
        claim = volumes.claims.get(used.key)
        if claim is None or ONE_POD not in claim.spec.access_modes:
            continue
        others = (other for key, other in volumes.users.get(used.key, {}).items() if key != task.key)
        if any(other.row >= 0 and other.status not in COMPLETED_SET for other in others):
            return Verdicts.reject_where(np.ones(len(rows), np.bool_), IN_USE)
    return None


def filter_limits(world: World, task: Task, rows: Rows, met_on: Callable[[int], Iterable[Task]]) -> Verdicts | None:
    """Reject rows where the pod's CSI volumes, with those of the pods there, exceed a driver's limit."""
    volumes, nodes = world.volumes, world.nodes
    wanted = volumes.attached((task,))
    if not wanted or not volumes.nodes:
        return None
    over = np.zeros(len(rows), np.bool_)
    for i, row in enumerate(rows.tolist()):
        limits = volumes.limits_of(nodes.names[row])
        if not any(driver in limits for driver in wanted):
            continue
        there = volumes.attached(other for other in met_on(row) if other is not task)
        for driver, handles in wanted.items():
            used = there.get(driver, set())
            if driver in limits and handles - used and len(used | handles) > limits[driver]:
                over[i] = True
    return Verdicts.reject_where(over, TOO_MANY) if over.any() else None


def filter_zones(world: World, task: Task, rows: Rows) -> Verdicts | None:
    """Reject rows outside the zone or region that a bound volume's labels name."""
    ok: Mask | None = None
    for used in claims_of(task.pod):
        claim = world.volumes.claims.get(used.key)
        volume = world.volumes.volumes.get(claim.spec.volume_name) if claim is not None else None
        labels = volume.metadata.labels or {} if volume is not None else {}
        asked = [
            (key, newer, frozenset(labels[key].split("__"))) for key, newer in ZONE_LABELS.items() if key in labels
        ]
        if asked:
            mask = world.labels.zoned(asked)
            ok = mask if ok is None else ok & mask
    return None if ok is None else Verdicts.reject_where(~ok[rows], WRONG_ZONE)


class _Choice(NamedTuple):
    """Verdicts on rows, and for each unbound claim the chosen volume (index, or -1 for one to be provisioned)."""

    codes: npt.NDArray[np.uint16]
    open: Sequence[PersistentVolumeClaim]
    volumes: Sequence[PersistentVolume]
    picked: npt.NDArray[np.int64]


def filter_binding(world: World, task: Task, rows: Rows) -> Verdicts | None:
    """Reject rows from which bound volumes cannot be reached, or for which no volume is found or can be provisioned."""
    choice = _choose(world, task, rows)
    return Verdicts(choice.codes, _REASONS) if choice.codes.any() else None


def reserve(world: World, task: Task, row: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the volumes to bind, by claim, when the task is placed on a row, and the claims to provision."""
    choice = _choose(world, task, np.array([row], np.int64))
    bound: dict[str, str] = {}
    made: list[str] = []
    for number, claim in enumerate(choice.open):
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        index = int(choice.picked[number, 0])
        if index >= 0:
            bound[key] = choice.volumes[index].metadata.name
        else:
            made.append(key)
    return bound, tuple(made)


def _choose(world: World, task: Task, rows: Rows) -> _Choice:
    """Judge rows and choose volumes: by bound claims first, then for unbound ones from the smallest on."""
    volumes = world.volumes
    codes = np.zeros(len(rows), np.uint16)
    waiting: list[PersistentVolumeClaim] = []
    held: dict[str, int] = {}
    picked, provisions = volumes.picked()
    for used in claims_of(task.pod):
        claim = volumes.claims.get(used.key)
        if claim is None:
            continue
        if is_bound(claim):
            _reach(world, claim.spec.volume_name, rows, codes)
            continue
        waiting.append(claim)
        if used.key in provisions:
            held[used.key] = provisions[used.key]
    waiting.sort(key=lambda claim: (size_of(claim.spec.resources.requests), claim.metadata.name))
    offers = [v for v in volumes.volumes.values() if v.metadata.deletion_timestamp is None] if waiting else []
    offers.sort(key=lambda volume: (size_of(volume.spec.capacity), volume.metadata.name))
    taken = {volume: key for key, volume in picked.items()}
    picks = np.full((len(waiting), len(rows)), -1, np.int64)
    for number, claim in enumerate(waiting):
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        found = np.zeros(len(rows), np.bool_)
        if SELECTED_NODE not in (claim.metadata.annotations or {}) and key not in held:
            for index, volume in enumerate(offers):
                if not _suits(volume, claim, taken, picked.get(key)):
                    continue
                here = ~found & world.labels.selected(_affinity(volume))[rows]
                here &= ~(picks[:number] == index).any(axis=0)
                picks[number, here] = index
                found |= here
                if found.all():
                    break
        left = np.nonzero(~found & (codes == 0))[0]
        if left.size:
            codes[left] = _provisionable(world, claim, rows[left], held.get(key, -1))
    return _Choice(codes, waiting, offers, picks)


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def _reach(world: World, name: str, rows: Rows, codes: npt.NDArray[np.uint16]) -> None:
    """Reject rows from which a claim's volume cannot be reached."""
    volume = world.volumes.volumes.get(name)
    if volume is None:
        codes[codes == 0] = 1 + _REASONS.index(NO_VOLUME)
        return
    affinity = _affinity(volume)
    if affinity is not None:
        codes[~world.labels.selected(affinity)[rows] & (codes == 0)] = 1 + _REASONS.index(WRONG_NODE)


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, taken: dict[str, str], mine: str | None) -> bool:
    """Whether a volume may be bound to a claim, apart from its nodes and unless reserved for another."""
    key = f"{claim.metadata.namespace}/{claim.metadata.name}"
    if mine is not None and mine != volume.metadata.name:
        return False
    return taken.get(volume.metadata.name, key) == key and suits(volume, claim)


def _provisionable(world: World, claim: PersistentVolumeClaim, rows: Rows, held: int) -> npt.NDArray[np.uint16]:
    """Return per row 0 where a volume can be provisioned for a claim, else the code of the reason."""
    volumes, nodes = world.volumes, world.nodes
    found = volumes.classes.get(class_name_of(claim))
    refused = np.full(len(rows), 1 + _REASONS.index(NO_MATCH), np.uint16)
    if found is None or not found.provisioner or found.provisioner == NO_PROVISIONER:
        return refused
    ok = world.labels.in_topology(found.allowed_topologies)[rows]
    selected = claim.metadata.annotation(SELECTED_NODE)
    if selected:
        ok = ok & (rows == nodes.row_of.get(selected, -1))
    if held >= 0:
        ok = ok & (rows == held)
    codes = np.where(ok, 0, refused).astype(np.uint16)
    driver = volumes.drivers.get(found.provisioner)
    if driver is not None and driver.spec.storage_capacity:
        room = _with_room(world, found.metadata.name, size_of(claim.spec.resources.requests))[rows]
        codes[(codes == 0) & ~room] = 1 + _REASONS.index(NO_SPACE)
    return codes


def _with_room(world: World, class_name: str, size: int) -> Mask:
    """Return the rows where a driver reports capacity for a volume of this size in bytes."""
    mask = np.zeros(world.nodes.size, np.bool_)
    for capacity in world.volumes.capacities.values():
        if capacity.storage_class_name != class_name or capacity.node_topology is None:
            continue
        most = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
        try:
            if most is None or value(most) < size:
                continue
        except InvalidQuantity:
            continue
        mask |= world.labels.labelled(capacity.node_topology)
    return mask
