"""Changes with which a waiting job may start, as edits of a copy; `strato.scheduler.dryrun.fixes` tries them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import structs

from strato.api import catalog
from strato.api.core import Node, Pod, ResourceQuota
from strato.api.core.affinity import Affinity, Toleration
from strato.api.meta import Object
from strato.api.quantity import resource_text
from strato.api.shapes import ResourceList
from strato.api.volcano.scheduling import PodGroup
from strato.api.volcano.scheduling import Queue as QueueView
from strato.scheduler.cache import kinds
from strato.scheduler.cache.world import World
from strato.scheduler.dryrun.run import Decoded
from strato.scheduler.dryrun.trial import Edit
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import PODS, internal, to_quantity

_HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_SHAPES: Final = 4

V = TypeVar("V", bound=Object)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change to a state.

    Attributes:
        kind: Its family.
        text: What it changes, from what to what.
        edits: Edits of existing objects.
        more: Objects it adds.
    """

    kind: str
    text: str
    edits: Sequence[Edit] = ()
    more: Sequence[Decoded] = ()


def joined(changes: Sequence[StateChange]) -> StateChange:
    """Return several changes of one family as one."""
    edits = [edit for change in changes for edit in change.edits]
    return StateChange(changes[0].kind, ", ".join(change.text for change in changes), edits)


def _on(view_type: type[V], key: str, edit: Callable[[V], V]) -> Edit:
    """Return an edit of one object."""

    def apply(view: Object) -> Object:
        return edit(view) if isinstance(view, view_type) and str(view.key) == key else view

    return apply


def _on_pods(job: Job, edit: Callable[[Any], Any]) -> Edit:
    """Return an edit of the specs of a job's pods."""
    keys = frozenset(job.tasks)

    def apply(view: Object) -> Object:
        if isinstance(view, Pod) and str(view.key) in keys:
            return structs.replace(view, spec=edit(view.spec))
        return view

    return apply


# -- the group ---------------------------------------------------------------------------------------


def members(job: Job, count: int) -> StateChange | None:
    """Return the change that lets the job start with fewer pods."""
    had = job.min_available
    if job.group is None or not 0 < count < had:
        return None

    def edit(group: PodGroup) -> PodGroup:
        spec = group.spec
        roles = {role: least * count // had for role, least in spec.min_task_member.items()}
        scaled = _scaled(spec.min_resources, count, had) if spec.min_resources is not None else None
        spec = structs.replace(spec, min_member=count, min_task_member=roles, min_resources=scaled)
        return structs.replace(group, spec=spec)

    return StateChange("members", f"fewer members: minMember {had} -> {count}", [_on(PodGroup, job.key, edit)])


def _scaled(amounts: ResourceList, count: int, had: int) -> dict[str, str | int | float]:
    return {name: to_quantity(name, internal(name, text) * count // had) for name, text in amounts.items()}


def other_queues(world: World, job: Job) -> list[StateChange]:
    """Return changes of the group's queue to each other open queue without children; the emptiest first."""
    if job.group is None:
        return []
    parents = {queue.parent for queue in world.queues.values()} | {"root"}
    open_ = [q for q in world.queues.values() if q.is_open and q.name != job.queue_name and q.name not in parents]

    def to(name: str) -> StateChange:
        def edit(group: PodGroup) -> PodGroup:
            return structs.replace(group, spec=structs.replace(group.spec, queue=name))

        return StateChange("queue", f"another queue: {job.queue_name} -> {name}", [_on(PodGroup, job.key, edit)])

    return [to(queue.name) for queue in sorted(open_, key=lambda q: (len(q.jobs), q.name))]


# -- the queue ---------------------------------------------------------------------------------------


def queue_opened(world: World, job: Job) -> list[StateChange]:
    """Open the job's queue when it is not."""
    queue = job.queue
    if queue is None or queue.view is None or queue.is_open:
        return []

    def edit(view: QueueView) -> QueueView:
        return structs.replace(view, status=structs.replace(view.status, state="Open"))

    return [
        StateChange("queue", f"open queue {queue.name}, which is {queue.state}", [_on(QueueView, queue.name, edit)])
    ]


def _lineage(world: World, name: str) -> Iterator[Queue]:
    """Return a queue and its ancestors."""
    seen: set[str] = set()
    while name and name in world.queues and name not in seen:
        seen.add(name)
        yield world.queues[name]
        name = world.queues[name].parent or ("root" if name != "root" else "")


def _per_member(world: World, job: Job) -> dict[str, int]:
    """Return what one more member of a job asks for, by resource in internal units."""
    names = world.dims.names
    pending = list(job.pending.values())
    if pending:
        most = pending[0].cls.request.copy()
        for task in pending[1:]:
            most = most.clip(min=task.cls.request)
    elif job.min_resources is not None:
        most = -(-job.min_resources // max(job.min_available, 1))
    else:
        return {}
    return {names[column]: int(amount) for column, amount in enumerate(most.tolist()) if amount > 0 and column != PODS}


def quota_raised(world: World, job: Job) -> tuple[int, Callable[[int], StateChange | None]]:
    """Raise capability and deserved of the job's queue and its ancestors to ``n`` more members than is used.

    Returns:
        The largest sensible ``n``, and the change for an ``n``; None where it changes nothing.
    """
    one = _per_member(world, job)
    queues = [
        (queue, queue.view.spec, _used(world, queue))
        for queue in _lineage(world, job.queue_name)
        if queue.view is not None and (queue.view.spec.capability or queue.view.spec.deserved)
    ]
    idle = [
        (internal(name, text) - used.get(name, 0)) // one[name] + 1
        for _, spec, used in queues
        for amounts in (spec.capability, spec.deserved)
        for name, text in amounts.items()
        if one.get(name)
    ]
    most = max(job.min_available, len(job.pending), 1) + max(0, *idle) if idle else 0

    def make(size: int) -> StateChange | None:
        edits, texts = [], []
        for queue, spec, used in queues:
            changed = {}
            for field in ("capability", "deserved"):
                had = getattr(spec, field)
                raised = _raised(had, {name: used.get(name, 0) + amount * size for name, amount in one.items()})
                if raised:
                    changed[field] = {**had, **raised}
                    steps = ", ".join(_step(name, had[name], amount) for name, amount in raised.items())
                    texts.append(f"{field} of queue {queue.name}: {steps}")
            if changed:
                edits.append(_on(QueueView, queue.name, _spec_with(changed)))
        return StateChange("quota", "more quota: " + "; ".join(texts), edits) if edits else None

    return most, make


def _used(world: World, queue: Queue) -> dict[str, int]:
    """Return what the jobs of a queue and of those below it hold, by resource in internal units."""
    below = [other.used for other in world.queues.values() if queue in _lineage(world, other.name)]
    return dict(zip(world.dims.names, (int(sum(column)) for column in zip(*below, strict=True)), strict=False))


def _raised(amounts: ResourceList, wanted: Mapping[str, int]) -> dict[str, str]:
    """Return the amounts that are smaller than wanted, raised to that."""
    return {
        name: to_quantity(name, wanted[name])
        for name, text in amounts.items()
        if wanted.get(name, 0) > internal(name, text)
    }


def _spec_with(changed: Mapping[str, Any]) -> Callable[[QueueView], QueueView]:
    return lambda view: structs.replace(view, spec=structs.replace(view.spec, **changed))


def weight_raised(world: World, job: Job) -> tuple[int, Callable[[int], StateChange | None]]:
    """Raise the weight of the job's queue by ``n``, if other queues share with it."""
    queue = job.queue
    rivals = [q for q in world.queues.values() if q.name not in ("root", job.queue_name) and q.jobs]
    if queue is None or queue.view is None or not rivals:
        return 0, lambda _: None
    had = queue.weight
    heaviest = max(q.weight for q in rivals)

    def make(size: int) -> StateChange | None:
        text = f"more quota: weight of queue {job.queue_name}: {had} -> {had + size}"
        return StateChange("quota", text, [_on(QueueView, job.queue_name, _spec_with({"weight": had + size}))])

    return 64 * max(heaviest, 1), make


def namespace_quota_raised(world: World, job: Job) -> list[StateChange]:
    """Raise each resource quota of the job's namespace by all the job asks for."""
    one = _per_member(world, job)
    size = max(job.min_available, len(job.pending), 1)
    quotas = world.quotas.get(job.namespace)
    found = []
    for quota in quotas.by_name.values() if quotas is not None else ():
        wider: dict[str, str] = {}
        for name, text in quota.spec.hard.items():
            asked = one.get(name.removeprefix("requests.").removeprefix("limits."))
            if asked:
                wider[name] = to_quantity(
                    name.rpartition(".")[2], internal(name.rpartition(".")[2], text) + asked * size
                )
            elif name in ("pods", "count/pods"):
                wider[name] = str(internal("pods", text) + size)
        if wider:
            steps = ", ".join(_step(name, quota.spec.hard[name], amount) for name, amount in wider.items())
            text = f"more quota: resource quota {quota.metadata.name}: {steps}"
            found.append(StateChange("quota", text, [_on(ResourceQuota, str(quota.key), _quota_with(wider))]))
    return found


def _step(name: str, before: str | float, after: str) -> str:
    return f"{name} {resource_text(name, before)} -> {resource_text(name, after)}"


def _quota_with(wider: Mapping[str, str]) -> Callable[[ResourceQuota], ResourceQuota]:
    def edit(quota: ResourceQuota) -> ResourceQuota:
        hard = {**quota.spec.hard, **wider}
        status = structs.replace(quota.status, hard={**quota.status.hard, **wider})
        return structs.replace(quota, spec=structs.replace(quota.spec, hard=hard), status=status)

    return edit


# -- the pods' rules ---------------------------------------------------------------------------------------


def rules_dropped(world: World, job: Job) -> list[StateChange]:
    """Return a change for each rule that excludes nodes for the job's pods: drop the rule, or tolerate the taint."""
    specs = list({id(task.cls): task.pod.spec for task in job.pending.values()}.values())
    found: list[StateChange] = []

    def drop(text: str, edit: Callable[[Any], Any]) -> None:
        found.append(StateChange("rule", text, [_on_pods(job, edit)]))

    for label in dict.fromkeys(label for spec in specs for label in spec.node_selector.items()):
        drop(f"drop the node selector {label[0]}={label[1]}", _without_label(label[0]))
    affinities = [spec.affinity for spec in specs if spec.affinity is not None]
    for field, called in _AFFINITIES.items():
        if any(part is not None and part.required for part in (getattr(a, field) for a in affinities)):
            drop(f"drop the required {called}", _without_affinity(field))
    if any(c.when_unsatisfiable == "DoNotSchedule" for spec in specs for c in spec.topology_spread_constraints):
        drop("drop the topology spread constraints", lambda s: structs.replace(s, topology_spread_constraints=()))
    for key in _taints(world):
        drop(f"tolerate the taint {key}", _tolerating(key))
    if job.group is not None and job.group.spec.network_topology is not None:
        found.append(StateChange("rule", "drop the network topology", [_on(PodGroup, job.key, _without_topology)]))
    return found


_AFFINITIES: Final = {
    "node_affinity": "node affinity",
    "pod_affinity": "pod affinity",
    "pod_anti_affinity": "pod anti-affinity",
}


def _without_label(key: str) -> Callable[[Any], Any]:
    return lambda spec: structs.replace(spec, node_selector={k: v for k, v in spec.node_selector.items() if k != key})


def _without_affinity(field: str) -> Callable[[Any], Any]:
    def edit(spec: Any) -> Any:
        affinity: Affinity | None = spec.affinity
        return spec if affinity is None else structs.replace(spec, affinity=structs.replace(affinity, **{field: None}))

    return edit


def _taints(world: World) -> list[str]:
    nodes = [node for node in world.nodes.facts if node is not None]
    keys = {taint.key for node in nodes for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")}
    return sorted(keys)


def _tolerating(key: str) -> Callable[[Any], Any]:
    toleration = Toleration(key=key, operator="Exists")
    return lambda spec: structs.replace(spec, tolerations=(*spec.tolerations, toleration))


def _without_topology(group: PodGroup) -> PodGroup:
    return structs.replace(group, spec=structs.replace(group.spec, network_topology=None))


# -- nodes ---------------------------------------------------------------------------------------


def nodes_added(world: World, job: Job) -> list[Callable[[int], StateChange | None]]:
    """Return changes that add ``n`` nodes, one for each shape of existing nodes, the largest first.

    Without such, one that adds nodes as large as the largest pod.
    """
    shapes: dict[Any, Node] = {}
    for node in world.nodes.facts:
        if node is not None and not node.spec.unschedulable:
            labels = {k: v for k, v in (node.metadata.labels or {}).items() if k != _HOSTNAME}
            shape = (tuple(sorted(labels.items())), node.spec.taints, tuple(sorted(node.status.allocatable.items())))
            shapes.setdefault(shape, node)
    by_size = sorted(shapes.values(), key=lambda n: -internal("cpu", n.status.allocatable.get("cpu", "0")))
    makers = [_clones(node, f"like {node.metadata.name}") for node in by_size[:_MOST_SHAPES]]
    largest = max(job.pending.values(), key=lambda task: task.cls.request.tolist(), default=None)
    if largest is not None:
        makers.append(_clones(_fitting(world, largest), "as large as one pod asks for"))
    return makers


def _clones(node: Node, label: str) -> Callable[[int], StateChange | None]:
    sizes = ", ".join(f"{name} {resource_text(name, amount)}" for name, amount in node.status.allocatable.items())

    def make(count: int) -> StateChange | None:
        more = [Decoded("added", _NODE, _clone(node, number)) for number in range(1, count + 1)]
        noun = "node" if count == 1 else "nodes"
        return StateChange("nodes", f"{count} more {noun} {label} ({sizes})", (), more)

    return make


_NODE: Final = next(known for known in kinds.KINDS if known.kind is catalog.NODE)


def _clone(node: Node, number: int) -> Node:
    name = f"{node.metadata.name}-added-{number}"
    labels = {**(node.metadata.labels or {}), _HOSTNAME: name}
    return structs.replace(node, metadata=structs.replace(node.metadata, name=name, uid=f"-{name}", labels=labels))


def _fitting(world: World, task: Task) -> Node:
    """Return a node with exactly what one pod requests, and with the labels it selects."""
    amounts = {
        name: to_quantity(name, amount)
        for name, amount in zip(world.dims.names, task.cls.request.tolist(), strict=False)
        if amount
    }
    node = Node()
    metadata = structs.replace(node.metadata, name="node", labels=dict(task.pod.spec.node_selector))
    return structs.replace(node, metadata=metadata, status=structs.replace(node.status, allocatable=amounts))
