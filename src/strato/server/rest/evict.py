"""``pods/eviction``: delete a pod if its disruption budgets allow that.

The allowed disruptions are counted for each eviction; no controller keeps them in the budgets' status.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.selectors import Selector, from_label_selector
from strato.api.shapes import LabelSelector
from strato.api.status import not_found
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.errors import BadRequest, Cause, TooManyRequests
from strato.server import preparation
from strato.server.fields import labels_of
from strato.server.flowcontrol.dispatch import Steps
from strato.server.jsonbodies import stored_steps
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.delete import FINISHED, Deleter, check_delete_options, check_preconditions, dry_run
from strato.server.rest.largewrites import Changed, answered
from strato.server.rest.slicedreads import are_many, read_in_slices
from strato.server.rest.state import State, object_key

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_EVICTION = Kind("policy", "v1", "Eviction", "evictions")


class Evictor:
    """Evicts pods."""

    def __init__(self, state: State, deleter: Deleter) -> None:
        self._state, self._deleter = state, deleter

    def evict(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Delete a pod unless a disruption budget forbids it.

        Raises:
            TooManyRequests: One does; the message has the healthy pods it needs and has.
        """
        budgets = self._state.bucket(catalog.PODDISRUPTIONBUDGET).objects
        body = self._state.bucket(served.kind).latest(object_key(served.kind, target.namespace, target.name))
        return answered(
            self._state,
            request,
            served,
            target.name,
            body,
            lambda: self._evicting(request, target, served),
            looks_at_many=bool(budgets) and are_many(self._state, served.kind, target.namespace),
            calls=self._state.dynamic.concerns(served.kind, "CREATE", "eviction"),
        )

    def _evicting(self, request: Request, target: ResourcePath, served: Served) -> Steps[Response]:
        kind = served.kind
        eviction = preparation.read_typed(_EVICTION, request)
        named = eviction["metadata"].get("name") or target.name
        if named != target.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        options = eviction.get("deleteOptions") or {}
        check_delete_options(options)
        if options.get("dryRun"):
            request = dry_run(request)
        elif request.query:
            storing.check_options(request, "CreateOptions")
        key = object_key(kind, target.namespace, target.name)
        body = self._state.bucket(kind).latest(key)
        if body is None:
            raise not_found(kind, target.name)
        pod = yield from stored_steps(body)
        self._state.rights.check(storing.admission_request(request, target, kind, "CREATE", eviction, pod), target.name)
        asked = storing.admission_request(request, target, kind, "CREATE", eviction, None)
        yield from self._state.dynamic.admit(asked, storing.options(asked))
        phase = pod.get("status", {}).get("phase")
        if phase not in (*FINISHED, "Pending") and not pod["metadata"].get("deletionTimestamp"):
            yield from self._check_budgets(target.namespace, pod)
        if self._state.bucket(kind).latest(key) is not body:
            raise Changed
        check_preconditions(kind, target.name, options, pod)
        texts = storing.texts_of(body)
        if pod["spec"].get("nodeName") and phase not in FINISHED:
            self._mark(request, kind, target, pod, texts)
        self._deleter.remove(request, kind, target, pod, options, texts)
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return storing.with_warnings(Response(201, encode(done)), asked.warnings)

    def _mark(self, request: Request, kind: Kind, target: ResourcePath, pod: Json, texts: storing.Texts) -> None:
        """Set the pod's condition DisruptionTarget, by which its owner sees that it did not fail."""
        status = pod.setdefault("status", {})
        conditions = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": format_time(self._state.clock.now()),
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
        )
        status["conditions"] = conditions
        key = object_key(kind, target.namespace, target.name)
        storing.store(self._state, request, kind, key, pod, texts)

    def _check_budgets(self, namespace: str, pod: Json) -> Steps[None]:
        labels = pod["metadata"].get("labels") or {}
        for budget in self._state.list(catalog.PODDISRUPTIONBUDGET, namespace):
            selector = from_label_selector(msgspec.convert(budget["spec"].get("selector") or {}, LabelSelector))
            if not selector.matches(labels):
                continue
            found = yield from read_in_slices(self._state, catalog.POD, namespace, partial(_covered, selector))
            covered = list(found.values())
            room = room_for(budget["spec"], covered, self._expected(namespace, covered))
            if not room.is_allowed(is_healthy(pod), budget["spec"].get("unhealthyPodEvictionPolicy")):
                name = budget["metadata"]["name"]
                text = f"The disruption budget {name} needs {room.needed} healthy pods and has {room.healthy} currently"
                raise TooManyRequests(
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                    causes=[Cause("DisruptionBudget", text)],
                )

    def _expected(self, namespace: str, pods: Iterable[Covered]) -> int:
        """Return how many pods there should be: the replicas of their owners, and one for each other pod."""
        expected = 0
        for owner, count in Counter(pod.owner for pod in pods).items():
            replicas = self._replicas(namespace, owner) if owner is not None else None
            expected += count if replicas is None else replicas
        return expected

    def _replicas(self, namespace: str, owner: Owner) -> int | None:
        group, _, version = owner.api_version.rpartition("/")
        for kind in self._state.registry.kinds():
            if (kind.group, kind.version, kind.name) == (group, version, owner.kind):
                found = self._state.latest(kind, namespace, owner.name) or {}
                replicas = (found.get("spec") or {}).get("replicas")
                return replicas if isinstance(replicas, int) else None
        return None


class Owner(NamedTuple):
    """The controller of a pod."""

    uid: str
    api_version: str
    kind: str
    name: str


class Covered(NamedTuple):
    """A pod that a budget's selector matches."""

    is_healthy: bool
    owner: Owner | None


def _covered(selector: Selector, body: bytes) -> Covered | None:
    """Return what a budget needs to know of a pod; None if its selector does not match."""
    if not selector.matches(labels_of(body)):
        return None
    pod = _decode(body)
    owner = next((one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    if owner is not None:
        owner = Owner(owner["uid"], owner["apiVersion"], owner["kind"], owner["name"])
    return Covered(is_healthy(pod), owner)


@dataclass(frozen=True, slots=True)
class DisruptionsAllowed:
    """The state of a budget: how many pods may still be disrupted."""

    needed: int
    """Healthy pods that the budget requires."""
    healthy: int
    """Healthy pods that exist, without terminating ones."""

    def is_allowed(self, is_pod_healthy: bool, policy: str | None) -> bool:
        """Return whether a pod may be evicted; an unhealthy one may if enough others are healthy."""
        if is_pod_healthy:
            return self.healthy > self.needed
        return policy == "AlwaysAllow" or self.healthy >= self.needed > 0


def room_for(spec: Json, pods: Iterable[Covered], expected: int) -> DisruptionsAllowed:
    """Return the state of a budget.

    Args:
        spec: The PodDisruptionBudget's, with ``minAvailable`` or ``maxUnavailable``: numbers, or percentages (rounded
            up).
        pods: The pods that it selects.
        expected: How many pods there should be.
    """
    at_least, at_most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if at_most is not None:
        needed = max(0, expected - _count(at_most, expected))
    else:
        needed = _count(at_least, expected) if at_least is not None else 0
    return DisruptionsAllowed(needed, sum(pod.is_healthy for pod in pods))


def is_healthy(pod: Json) -> bool:
    """Return whether a pod is ready and not terminating."""
    conditions = pod.get("status", {}).get("conditions") or ()
    is_ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def _count(value: int | str, total: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(int(value.rstrip("%")) * total / 100)
