"""What a pod asks of a node: containers, init containers, sidecars, overhead, what it says for all of itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.scheduler.cache.ingest import class_key, make_class, requests
from strato.scheduler.model.resources import CPU, MEMORY, PODS, Dimensions

Json = dict[str, Any]


def asks(cpu: str = "", gpu: str = "", **more: Any) -> Json:
    amounts = {name: text for name, text in (("cpu", cpu), ("nvidia.com/gpu", gpu)) if text}
    return {"name": "c", "resources": {"requests": amounts}, **more}


def sidecar(cpu: str) -> Json:
    return asks(cpu, restartPolicy="Always")


def pod(*containers: Json, **spec: Any) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": containers, **spec}}, Pod
    )


CPUS = [
    pytest.param(pod(asks("1"), asks("2")), 3000, id="containers run together"),
    pytest.param(pod(asks("2"), initContainers=[asks("1")]), 2000, id="a smaller init container"),
    pytest.param(pod(asks("1"), initContainers=[asks("3")]), 3000, id="a larger init container"),
    pytest.param(pod(asks("2"), initContainers=[asks("2")]), 2000, id="an equal init container"),
    pytest.param(
        pod(asks("1"), initContainers=[asks("3"), asks("2")]), 3000, id="init containers, the first the larger"
    ),
    pytest.param(
        pod(asks("1"), initContainers=[asks("2"), asks("3")]), 3000, id="init containers, the last the larger"
    ),
    pytest.param(pod(asks(), initContainers=[asks("1")]), 1000, id="only an init container asks"),
    pytest.param(pod(asks("1"), initContainers=[sidecar("2")]), 3000, id="a sidecar runs beside the containers"),
    pytest.param(pod(asks("1"), initContainers=[sidecar("2"), sidecar("4")]), 7000, id="two sidecars"),
    pytest.param(
        pod(asks("1"), initContainers=[sidecar("2"), asks("4")]), 6000, id="an init container after a sidecar"
    ),
    pytest.param(
        pod(asks("1"), initContainers=[asks("4"), sidecar("2")]), 4000, id="an init container before a sidecar"
    ),
    pytest.param(pod(asks("1"), overhead={"cpu": "500m"}), 1500, id="overhead"),
    pytest.param(pod(asks("1"), initContainers=[asks("2")], overhead={"cpu": "1"}), 3000, id="overhead of the larger"),
    pytest.param(pod(asks("1"), resources={"requests": {"cpu": "5"}}), 5000, id="what it says for all of itself"),
    pytest.param(pod(asks("9"), resources={"requests": {"cpu": "5"}}, overhead={"cpu": "1"}), 6000, id="with overhead"),
    pytest.param(pod(asks("0")), 0, id="zero"),
    pytest.param(pod(asks()), 0, id="nothing"),
]


@pytest.mark.parametrize(("given", "cpu"), CPUS)
def test_requests(given: Pod, cpu: int) -> None:
    found = requests(given.spec, Dimensions())
    assert (found[CPU], found[MEMORY], found[PODS]) == (cpu, 0, 1)


def test_each_resource_is_counted_by_itself() -> None:
    dims = Dimensions()
    found = requests(pod(asks("3", "1"), initContainers=[asks("1", "4")]).spec, dims)
    assert (found[CPU], found[dims.column("nvidia.com/gpu")]) == (3000, 4000)
    one = pod(asks("3", "1"))
    assert make_class(0, one, one.spec, dims).request[PODS] == 1


def test_containers_that_do_not_say_count_for_something_in_scores() -> None:
    missing = {CPU: 100, MEMORY: 200}
    assert requests(pod(asks(), asks()).spec, Dimensions(), missing)[CPU] == 200
    assert requests(pod(asks("1"), asks()).spec, Dimensions(), missing)[CPU] == 1100
    assert requests(pod(asks("1"), initContainers=[sidecar("1")]).spec, Dimensions(), missing)[MEMORY] == 400
    assert requests(pod(asks("1"), initContainers=[asks("5"), asks()]).spec, Dimensions(), missing)[CPU] == 5000


BASE = {"containers": [asks("1")]}
OTHER: list[Json] = [
    {"containers": [asks("2")]},
    {"containers": [asks("1"), asks("1")]},
    {"containers": [asks("1", image="other")]},
    {"containers": [asks("1", ports=[{"containerPort": 80, "hostPort": 80}])]},
    {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]},
    {**BASE, "nodeSelector": {"a": "b"}},
    {**BASE, "tolerations": [{"operator": "Exists"}]},
    {**BASE, "initContainers": [asks("1")]},
    {**BASE, "initContainers": [sidecar("1")]},
    {**BASE, "initContainers": [asks("2")]},
    {**BASE, "initContainers": [asks("1", ports=[{"containerPort": 80, "hostPort": 80}])]},
    {**BASE, "overhead": {"cpu": "1"}},
    {**BASE, "resources": {"requests": {"cpu": "1"}}},
    {**BASE, "hostNetwork": True},
    {**BASE, "affinity": {"nodeAffinity": {}}},
    {**BASE, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}]},
    {**BASE, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
]


def test_pods_that_differ_in_what_a_node_must_offer_are_of_different_classes() -> None:
    metadata = {"name": "p", "namespace": "ns"}
    given = [msgspec.convert({"metadata": metadata, "spec": spec}, Pod) for spec in (BASE, *OTHER)]
    assert len({class_key(one, one.spec) for one in given}) == len(given)


def test_labels_and_namespace_matter_only_to_affinity_and_spread() -> None:
    def key(spec: Json, **metadata: Any) -> Any:
        one = msgspec.convert({"metadata": {"name": "p", **metadata}, "spec": spec}, Pod)
        return class_key(one, one.spec)

    assert key(BASE, namespace="a", labels={"x": "1"}) == key(BASE, namespace="b", labels={"x": "2"})
    for spec in OTHER[-3:-1]:
        assert key(spec, namespace="a") != key(spec, namespace="b")
        assert key(spec, namespace="a", labels={"x": "1"}) != key(spec, namespace="a", labels={"x": "2"})
