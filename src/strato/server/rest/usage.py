"""metrics.k8s.io: the current usage of pods and nodes, computed for each request; nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.metrics import Used, hollow_usage, running_containers
from strato.api.status import not_found
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.server.fields import Filter
from strato.server.flowcontrol.dispatch import Steps
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import representations
from strato.server.rest.collections import answered
from strato.server.rest.state import State, object_key

T = TypeVar("T")
_AT_ONCE = 100
"""Pods per slice, about 3 ms."""
_HOLLOW = ("node.kubernetes.io/instance-type", "hollow")
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode

Measured = Mapping[str, Mapping[str, Used]]
"""Usage measured on this machine: by pod uid, then container; the node itself by its name, then ``""``."""


class UsageSource(Protocol):
    """Measures the usage of this machine's pods."""

    def measure(self) -> Measured:
        """Measure all pods and the node; may block."""


class MetricsReader:
    """Answers reads of PodMetrics and NodeMetrics. On hollow nodes usage is computed from requests (`hollow_usage`)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.source: UsageSource | None = None
        self._kinds: Mapping[Kind, Callable[[Measured, Filter, ResourcePath], Steps[list[bytes]]]] = {
            catalog.PODMETRICS: self._pods,
            catalog.NODEMETRICS: self._nodes,
        }

    def answers(self, kind: Kind) -> bool:
        """Return whether a kind is PodMetrics or NodeMetrics."""
        return kind in self._kinds

    async def answer(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer get and list.

        Raises:
            NotFound: There is no object of that name, or its usage is not known.
        """
        kind = served.kind
        wanted = Filter(kind, request.param("labelSelector"), request.param("fieldSelector"))
        measured = {} if self.source is None else await asyncio.to_thread(self.source.measure)
        flows = self._state.flows
        flow, steps = flows.flow_of(request), self._kinds[kind](measured, wanted, target)
        found = await flows.dispatcher.finish_seated(flow, steps)
        if target.name and not found:
            raise not_found(kind, target.name)
        now = self._state.clock.now()
        if target.name:
            return representations.shown(request, served, found[0], now=now)
        text = representations.list_text(request, served, found, {}, "", now)
        return answered(flows.dispatcher, flow, text)

    def _bodies(self, kind: Kind, target: ResourcePath) -> Iterator[bytes]:
        bucket = self._state.bucket(kind)
        if target.name:
            row = bucket.objects.get(object_key(kind, target.namespace, target.name))
            return iter(() if row is None else (row.body,))
        prefix = f"{target.namespace}/" if target.namespace else ""
        return (body for _, body in bucket.snapshot(self._state.store.published).items(prefix))

    def _pods(self, measured: Measured, wanted: Filter, target: ResourcePath) -> Steps[list[bytes]]:
        found: list[bytes] = []

        def look(bodies: Sequence[bytes]) -> None:
            for body in bodies:
                pod = _decode(body) if wanted.matches(body) else None
                used = {} if pod is None else self._usage(pod, measured)
                if pod is not None and used:
                    rows = [{"name": name, "usage": one.quantities()} for name, one in used.items()]
                    window = max(one.window_seconds for one in used.values())
                    found.append(encode({**self._head(catalog.PODMETRICS, pod, window), "containers": rows}))

        yield from _slices(self._bodies(catalog.POD, target), look)
        return found

    def _nodes(self, measured: Measured, wanted: Filter, target: ResourcePath) -> Steps[list[bytes]]:
        nodes: dict[str, Json] = {}
        """The metadata of each node's metrics."""
        used: dict[str, Used] = {}

        def look_at_nodes(bodies: Sequence[bytes]) -> None:
            for node in map(_decode, filter(wanted.matches, bodies)):
                name = node["metadata"]["name"]
                own = measured.get(name)
                if own is not None or _is_hollow(node):
                    used[name] = Used() if own is None else own[""]
                    nodes[name] = self._head(catalog.NODEMETRICS, node, used[name].window_seconds)

        def look_at_pods(bodies: Sequence[bytes]) -> None:
            for body in bodies:
                pod = _decode(body)
                name = pod["spec"].get("nodeName")
                if name in used and name not in measured:
                    used[name] = sum(hollow_usage(pod, self._state.clock.now()).values(), used[name])

        yield from _slices(self._bodies(catalog.NODE, target), look_at_nodes)
        if used.keys() - measured.keys():
            yield from _slices(self._bodies(catalog.POD, ResourcePath("", "v1", "pods", "", "", "")), look_at_pods)
        found: list[bytes] = []

        def write(names: Sequence[str]) -> None:
            found.extend(encode({**nodes[name], "usage": used[name].quantities()}) for name in names)

        yield from _slices(iter(nodes), write)
        return found

    def _usage(self, pod: Json, measured: Measured) -> Mapping[str, Used]:
        name = pod["spec"].get("nodeName")
        if not name or (pod.get("status") or {}).get("phase") != "Running":
            return {}
        own = measured.get(pod["metadata"]["uid"])
        if own is not None:
            return {one: own[one] for one in running_containers(pod) if one in own}
        node = self._state.latest(catalog.NODE, "", name)
        return hollow_usage(pod, self._state.clock.now()) if node is not None and _is_hollow(node) else {}

    def _head(self, kind: Kind, obj: Json, window_seconds: float) -> Json:
        now, metadata = format_time(self._state.clock.now()), obj["metadata"]
        kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
        return {
            "kind": kind.name,
            "apiVersion": kind.api_version,
            "metadata": {**kept, "creationTimestamp": now},
            "timestamp": now,
            "window": f"{window_seconds:.3f}s",
        }


def _is_hollow(node: Json) -> bool:
    return (node["metadata"].get("labels") or {}).get(_HOLLOW[0]) == _HOLLOW[1]


def _slices(items: Iterator[T], look: Callable[[Sequence[T]], None]) -> Steps[None]:
    while some := list(islice(items, _AT_ONCE)):
        yield partial(look, some)
