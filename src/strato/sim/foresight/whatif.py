"""`what_if` runs a state forward without and with changes; `fewest_nodes` searches how many nodes to add."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from msgspec import structs

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.core.node import NodeSpec
from strato.api.meta import Json, Object
from strato.api.volcano.scheduling import Queue as QueueView
from strato.errors import InvalidInput, Problem, nearest
from strato.node.hollow.offers import CAPACITY, offers
from strato.node.shapes import NodeShape, parse_nodes
from strato.scheduler.cache import kinds
from strato.scheduler.dryrun.changes import StateChange
from strato.scheduler.dryrun.run import Decoded
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.resources import internal
from strato.sim.foresight.forward import Forecast, run_forward
from strato.sim.foresight.runseconds import RunSeconds

_NODE: Final = kinds.of(catalog.NODE)
_HOSTNAME: Final = "kubernetes.io/hostname"
MOST_NODES: Final = 10_000
"""The most nodes that `fewest_nodes` tries to add."""
_AMOUNTS: Final = ("capability", "deserved", "guarantee")
_FIELDS: Final = ("weight", "priority", "reclaimable", "parent", "state", *_AMOUNTS)


# -- changes ---------------------------------------------------------------------------------------------------------


def nodes_added(text: str) -> StateChange:
    """Add nodes of shapes, as ``strato up --hollow-nodes`` takes them.

    Raises:
        InvalidInput: The text describes none.
    """
    shapes = parse_nodes(text)
    return StateChange("nodes", f"add {text}", (), nodes_of(shapes))


def nodes_of(shapes: Sequence[NodeShape]) -> list[Decoded]:
    """Return nodes of shapes, ready and empty."""
    total = sum(shape.count for shape in shapes)
    made = offers([f"what-if-{number}" for number in range(1, total + 1)], shapes)
    found = []
    for name, offer in made.items():
        node: Json = {
            "metadata": {"name": name, "uid": f"-{name}", "labels": {_HOSTNAME: name, **offer.labels}},
            "spec": {"taints": [dict(taint) for taint in offer.taints]},
            "status": {
                "allocatable": {**CAPACITY, **offer.capacity},
                "capacity": {**CAPACITY, **offer.capacity},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        found.append(Decoded(f"--add-nodes: {name}", _NODE, msgspec.convert(node, Node)))
    return found


def drained(copy: Copy, name: str) -> StateChange:
    """Make a node unschedulable and evict its pods, except those of DaemonSets.

    Raises:
        InvalidInput: There is no such node.
    """
    names = [str(one.view.key) for one in copy.objects if isinstance(one.view, Node)]
    if name not in names:
        raise InvalidInput("--drain", [Problem(name, f"there is no such node{nearest(name, names)}")])

    pods = sum(
        isinstance(one.view, Pod) and one.view.spec.node_name == name and _is_evictable(one.view)
        for one in copy.objects
    )

    def edit(view: Object) -> Object:
        if isinstance(view, Node) and view.metadata.name == name:
            spec: NodeSpec = structs.replace(view.spec, unschedulable=True)
            return structs.replace(view, spec=spec)
        if isinstance(view, Pod) and view.spec.node_name == name and _is_evictable(view):
            spec_ = structs.replace(view.spec, node_name="")
            status = structs.replace(view.status, phase="Pending", start_time=None, nominated_node_name="")
            return structs.replace(view, spec=spec_, status=status)
        return view

    return StateChange("drain", f"drain {name}, of {pods} pod{'' if pods == 1 else 's'}", [edit])


def _is_evictable(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return not pod.is_finished and (owner is None or owner.kind != "DaemonSet")


def queue_set(copy: Copy, text: str) -> StateChange:
    """Set a field of a queue: ``NAME.weight=5``, ``NAME.capability.cpu=64``, ``NAME.state=Closed``.

    Raises:
        InvalidInput: There is no such queue or field, or the value is none for it.
    """
    place, equals, value = text.partition("=")
    if not equals or "." not in place:
        raise _bad_queue(text, "write QUEUE.FIELD=VALUE, for example research.weight=5 or research.capability.cpu=64")
    names = [str(one.view.key) for one in copy.objects if isinstance(one.view, QueueView)]
    name = max((one for one in names if place.startswith(f"{one}.")), key=len, default="")
    if not name:
        wanted = place.partition(".")[0]
        raise _bad_queue(text, f"there is no queue {wanted!r}{nearest(wanted, names)}")
    field, _, resource = place.removeprefix(f"{name}.").partition(".")
    if field not in _FIELDS:
        raise _bad_queue(text, f"queues have no {field!r} that can be set{nearest(field, _FIELDS)}")
    if bool(resource) != (field in _AMOUNTS):
        raise _bad_queue(
            text, f"write {name}.{field}.RESOURCE=QUANTITY" if field in _AMOUNTS else f"{field} has no parts"
        )
    change = _queue_edit(field, resource, value, text)

    def edit(view: Object) -> Object:
        return change(view) if isinstance(view, QueueView) and view.metadata.name == name else view

    return StateChange("queue", f"queue {text}", [edit])


def _queue_edit(field: str, resource: str, value: str, text: str) -> Callable[[QueueView], QueueView]:
    if field == "state":
        if value not in ("Open", "Closed"):
            raise _bad_queue(text, "state is Open or Closed")
        return lambda view: structs.replace(view, status=structs.replace(view.status, state=value))
    changed: Any
    if field in ("weight", "priority"):
        if not re.fullmatch(r"-?[0-9]{1,9}", value) or (field == "weight" and int(value) < 1):
            raise _bad_queue(text, f"{field} is a whole number" + (" of at least 1" if field == "weight" else ""))
        changed = int(value)
    elif field == "reclaimable":
        if value not in ("true", "false"):
            raise _bad_queue(text, "reclaimable is true or false")
        changed = value == "true"
    elif field == "parent":
        changed = value
    else:
        return _amount_edit(field, resource, value, text)
    return lambda view: structs.replace(view, spec=structs.replace(view.spec, **{field: changed}))


def _amount_edit(field: str, resource: str, value: str, text: str) -> Callable[[QueueView], QueueView]:
    try:
        if internal(resource, value) < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise _bad_queue(text, f"{value!r} is no quantity such as 64 or 1Ti") from None

    def edit(view: QueueView) -> QueueView:
        spec = view.spec
        if field == "guarantee":
            guarantee = structs.replace(spec.guarantee, resource={**spec.guarantee.resource, resource: value})
            return structs.replace(view, spec=structs.replace(spec, guarantee=guarantee))
        amounts = {**getattr(spec, field), resource: value}
        return structs.replace(view, spec=structs.replace(spec, **{field: amounts}))

    return edit


def _bad_queue(text: str, why: str) -> InvalidInput:
    return InvalidInput("--queue", [Problem(text, why)])


def applied(copy: Copy, changes: Sequence[StateChange]) -> Copy:
    """Return a state with changes applied in their order."""
    for change in changes:
        copy = copy.with_edits(change.edits, change.more)
    return copy


# -- before and after --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """The forecasts for a state without and with changes.

    Attributes:
        changes: A sentence for each change.
        before: The forecast without the changes.
        after: The forecast with them.
    """

    changes: Sequence[str]
    before: Forecast
    after: Forecast


def what_if(
    before: Copy,
    after: Copy,
    changes: Sequence[str],
    run_seconds: RunSeconds,
    *,
    horizon_seconds: float,
    names: Mapping[str, str] | None = None,
) -> WhatIfAnswer:
    """Run a state forward without and with changes.

    Args:
        before: The state as it is.
        after: The state with the changes (`applied`).
        changes: A sentence for each change.
        run_seconds: Returns how long pods run.
        horizon_seconds: The longest virtual time to run.
        names: Key of a pod group → name of its job for the user.
    """

    def forward(copy: Copy) -> Forecast:
        return run_forward(copy, run_seconds, horizon_seconds=horizon_seconds, names=names)

    return WhatIfAnswer(changes, forward(before), forward(after))


@dataclass(frozen=True, slots=True)
class Fewest:
    """The smallest number of added nodes with which all waiting jobs start at once.

    Attributes:
        nodes: The number; None if none of those tried was enough.
        tried: Number of added nodes → number of jobs that still waited.
        waiting: Name of a job that still waited with the most nodes → why; empty if a number was found.
    """

    nodes: int | None
    tried: Mapping[int, int]
    waiting: Mapping[str, str]

    @property
    def is_monotone(self) -> bool:
        """Whether, among the numbers tried, more nodes never left more jobs waiting; else a smaller one may exist."""
        counts = [self.tried[number] for number in sorted(self.tried)]
        return all(later <= earlier for earlier, later in itertools.pairwise(counts))


def fewest_nodes(copy: Copy, shape: NodeShape, run_seconds: RunSeconds) -> Fewest:
    """Search the smallest number of nodes of a shape with which all waiting jobs start at once.

    The number is doubled until all jobs start, at most up to one node for each waiting pod; a binary search follows.
    Both the answer and the answer less one were tried.
    """
    tried: dict[int, int] = {}
    reasons: dict[int, dict[str, str]] = {}

    pods = 0

    def waiting(number: int) -> int:
        nonlocal pods
        if number not in tried:
            more = nodes_of([replace(shape, count=number)]) if number else []
            found = run_forward(copy.with_edits((), more), run_seconds, horizon_seconds=0.0)
            tried[number] = len(found.waiting)
            pods = max(pods, sum(job.pods for job in found.waiting))
            reasons[number] = {job.name: job.reason for job in found.waiting}
        return tried[number]

    if waiting(0) == 0:
        return Fewest(0, tried, {})
    low, high, most = 0, 1, min(max(pods, 1), MOST_NODES)
    while waiting(high) > 0:
        if high >= most:
            return Fewest(None, tried, reasons[high])
        low, high = high, min(high * 2, most)
    while high - low > 1:
        middle = (low + high) // 2
        if waiting(middle) == 0:
            high = middle
        else:
            low = middle
    return Fewest(high, tried, {})
