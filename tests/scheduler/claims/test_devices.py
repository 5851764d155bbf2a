"""Devices: which claims can be allocated where, and what is written about it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.resource import ResourceClaim
from strato.scheduler.cache.world import World
from strato.scheduler.claims.allocator import allocate
from strato.scheduler.model.plan import Plan
from tests.scheduler import worlds

Json = dict[str, Any]
DRIVER = "gpu.example.com"
NODES = [worlds.node("a"), worlds.node("b")]


def device(name: str, model: str = "small", memory: str = "10Gi", **more: Any) -> Json:
    attributes = {"model": {"string": model}, "numa": {"int": more.pop("numa", 0)}}
    attributes["driverVersion"] = {"version": more.pop("version", "1.0.0")}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def slice_(node: str, *devices: Json, **more: Any) -> Json:
    pool = {"name": node or "shared", "generation": 1, "resourceSliceCount": 1} | more.pop("pool", {})
    spec: Json = {"driver": DRIVER, "pool": pool, "devices": list(devices), **more}
    if node:
        spec["nodeName"] = node
    return {"kind": "ResourceSlice", "metadata": {"name": more.pop("name", f"slice-{node}")}, "spec": spec}


def class_(name: str = "gpu", *expressions: str, **more: Any) -> Json:
    texts = expressions or (f"device.driver == '{DRIVER}'",)
    spec = {"selectors": [{"cel": {"expression": text}} for text in texts], **more}
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def request(name: str = "gpu", count: int = 1, *expressions: str, **more: Any) -> Json:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    exactly = {"deviceClassName": more.pop("of", "gpu"), "count": count, "selectors": selectors, **more}
    return {"name": name, "exactly": exactly}


def claim(name: str = "c", *requests: Json, **more: Any) -> Json:
    status = more.pop("status", {})
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("meta", {})}
    spec = {"devices": {"requests": list(requests) or [request()], **more}}
    return {"kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": status}


def allocated(*devices: str, pool: str = "a", on: str = "") -> Json:
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": d} for d in devices]
    allocation: Json = {"devices": {"results": results}}
    if on:
        field_ = {"key": "metadata.name", "operator": "In", "values": [on]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
    return {"allocation": allocation}


def pod(name: str = "p", *claims: str, **more: Any) -> Json:
    entries = [{"name": f"e{i}", "resourceClaimName": c} for i, c in enumerate(claims or ("c",))]
    return worlds.pod(name, more.pop("group", "g"), resourceClaims=entries, **more)


def decided(*objects: Json, minimum: int = 1) -> tuple[World, Plan]:
    world = worlds.world(worlds.queue(), worlds.group("g", minimum), *objects)
    return world, worlds.cycle(world)


@dataclass(frozen=True)
class Case:
    id: str
    objects: list[Json]
    node: str = ""
    said: str = ""
    devices: list[str] = field(default_factory=list)


def of_zone(zone: str) -> Json:
    """Return a selector of nodes."""
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}


ZONED = [worlds.node("a", labels={"zone": "x"}), worlds.node("b", labels={"zone": "y"})]
MIXED = slice_("a", device("d0"), device("d1", "big", "80Gi", version="2.1.0", numa=1), device("d2", "big", numa=0))
CASES = [
    Case(
        "a device is where its driver says",
        [*NODES, class_(), slice_("b", device("d")), claim(), pod()],
        "b",
        devices=["d"],
    ),
    Case(
        "a device that several nodes reach is selected by their labels",
        [*ZONED, class_(), slice_("", device("d"), nodeSelector=of_zone("y")), claim(), pod()],
        "b",
        devices=["d"],
    ),
    Case(
        "a device that no node reaches",
        [*ZONED, class_(), slice_("", device("d"), nodeSelector=of_zone("z")), claim(), pod()],
        said="cannot allocate all claims",
    ),
    Case(
        "a device that all nodes reach",
        [*ZONED[1:], class_(), slice_("", device("d"), allNodes=True), claim(), pod()],
        "b",
        devices=["d"],
    ),
    Case(
        "devices of one slice that different nodes reach",
        [
            *ZONED,
            class_(),
            slice_(
                "",
                device("d", nodeSelector=of_zone("z")),
                device("e", nodeSelector=of_zone("x")),
                perDeviceNodeSelection=True,
            ),
            claim(),
            pod(),
        ],
        "a",
        devices=["e"],
    ),
    Case(
        "a claim that is not there stops the pod",
        [*NODES, pod()],
        said='plugin DynamicResources pre-predicates failed resourceclaim.resource.k8s.io "c" not found',
    ),
    Case(
        "a claim of an unknown class stops the pod",
        [*NODES, slice_("a", device("d")), claim(), pod()],
        said="request gpu: device class gpu does not exist",
    ),
    Case(
        "a claim made from a template is waited for",
        [*NODES, worlds.pod("p", "g", resourceClaims=[{"name": "e", "resourceClaimTemplateName": "t"}])],
        said='pod "ns/p": ResourceClaim not created yet',
    ),
    Case(
        "a claim that is being deleted stops the pod",
        [*NODES, class_(), claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), pod()],
        said='resourceclaim "c" is being deleted',
    ),
    Case(
        "too few devices keep the pod waiting",
        [*NODES, class_(), slice_("a", device("d")), claim("c", request(count=2)), pod()],
        said="0/2 nodes are unavailable: 2 cannot allocate all claims.",
    ),
    Case(
        "devices of another claim are taken",
        [*NODES, class_(), slice_("a", device("d0"), device("d1")), claim("o", status=allocated("d0")), claim(), pod()],
        "a",
        devices=["d1"],
    ),
    Case(
        "an allocated claim draws its pods to its node",
        [*NODES, class_(), slice_("b", device("d")), claim(status=allocated("d", pool="b", on="b")), pod()],
        "b",
    ),
    Case(
        "an allocated claim keeps pods from other nodes",
        [worlds.node("a"), class_(), claim(status=allocated("d", pool="b", on="b")), pod()],
        said="1 resourceclaim not available on the node",
    ),
    Case(
        "a selector compares attributes",
        [
            *NODES,
            class_(),
            MIXED,
            claim("c", request("gpu", 2, f"device.attributes['{DRIVER}'].model == 'big'")),
            pod(),
        ],
        "a",
        devices=["d1", "d2"],
    ),
    Case(
        "a selector compares quantities",
        [
            *NODES,
            class_(),
            MIXED,
            claim("c", request("gpu", 1, f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0")),
            pod(),
        ],
        "a",
        devices=["d1"],
    ),
    Case(
        "a selector compares versions",
        [
            *NODES,
            class_(),
            MIXED,
            claim(
                "c", request("gpu", 1, f"device.attributes['{DRIVER}'].driverVersion.isGreaterThan(semver('1.9.0'))")
            ),
            pod(),
        ],
        "a",
        devices=["d1"],
    ),
    Case(
        "an attribute that a device lacks does not match",
        [*NODES, class_(), MIXED, claim("c", request("gpu", 1, "device.attributes['other.com'].x == 1")), pod()],
        said="cannot allocate all claims",
    ),
    Case(
        "the search goes back when a later request needs the device",
        [
            *NODES,
            class_(),
            MIXED,
            claim("c", request("any"), request("big", 2, f"device.attributes['{DRIVER}'].model == 'big'")),
            pod(),
        ],
        "a",
        devices=["d0", "d1", "d2"],
    ),
    Case(
        "a constraint makes devices agree in an attribute",
        [
            *NODES,
            class_(),
            MIXED,
            claim("c", request("x"), request("y"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
            pod(),
        ],
        "a",
        devices=["d0", "d2"],
    ),
    Case(
        "all matching devices means all of them",
        [*NODES, class_(), MIXED, claim("c", request(allocationMode="All")), pod()],
        "a",
        devices=["d0", "d1", "d2"],
    ),
    Case(
        "all matching devices are not had while one is taken",
        [*NODES, class_(), MIXED, claim("o", status=allocated("d2")), claim("c", request(allocationMode="All")), pod()],
        said="cannot allocate all claims",
    ),
    Case(
        "the first alternative that can be had is taken",
        [
            *NODES,
            class_(),
            class_("tpu", "device.driver == 'tpu.example.com'"),
            MIXED,
            claim(
                "c",
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {"name": "t", "deviceClassName": "tpu"},
                        {"name": "g", "deviceClassName": "gpu", "count": 2},
                    ],
                },
            ),
            pod(),
        ],
        "a",
        devices=["d0", "d1"],
    ),
    Case(
        "half a pool is no pool",
        [*NODES, class_(), slice_("a", device("d"), pool={"resourceSliceCount": 2}), claim(), pod()],
        said="cannot allocate all claims",
    ),
    Case(
        "a tainted device is left alone",
        [
            *NODES,
            class_(),
            slice_("a", device("d", taints=[{"key": "broken", "effect": "NoSchedule"}])),
            claim(),
            pod(),
        ],
        said="cannot allocate all claims",
    ),
    Case(
        "a taint is put up with when the request says so",
        [
            *NODES,
            class_(),
            slice_("a", device("d", taints=[{"key": "broken", "effect": "NoSchedule"}])),
            claim("c", request(tolerations=[{"key": "broken", "operator": "Exists"}])),
            pod(),
        ],
        "a",
        devices=["d"],
    ),
    Case(
        "of tainted devices one whose taint has the value that the request names is taken",
        [
            *NODES,
            class_(),
            slice_("a", device("d", taints=[{"key": "broken", "value": "no", "effect": "NoSchedule"}])),
            slice_("b", device("e", taints=[{"key": "broken", "value": "fan", "effect": "NoSchedule"}])),
            claim("c", request(tolerations=[{"key": "broken", "operator": "Equal", "value": "fan"}])),
            pod(),
        ],
        "b",
        devices=["e"],
    ),
    Case(
        "an administrator looks at a device that is in use",
        [
            *NODES,
            class_(),
            slice_("a", device("d")),
            claim("o", status=allocated("d")),
            claim("c", request(adminAccess=True)),
            pod(),
        ],
        "a",
        devices=["d"],
    ),
    Case(
        "devices that share a counter share what is left of it",
        [
            *NODES,
            class_(),
            slice_(
                "a",
                device("d0", consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "6Gi"}}}]),
                device("d1", consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "6Gi"}}}]),
                device("d2", consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "4Gi"}}}]),
                sharedCounters=[{"name": "s", "counters": {"memory": {"value": "10Gi"}}}],
            ),
            claim("c", request(count=2)),
            pod(),
        ],
        "a",
        devices=["d0", "d2"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_devices_decide_where_a_pod_runs(case: Case) -> None:
    world, plan = decided(*case.objects)
    assert worlds.binds(plan).get("ns/p", "") == case.node
    messages = [verdict.message for verdict in plan.pods]
    assert all(case.said in message for message in messages)
    assert bool(messages) == bool(case.said)
    held = world.tasks["ns/p"].reservation
    results = [r["device"] for a in (held.devices.values() if held else ()) for r in a["devices"]["results"]]
    assert results == case.devices


def test_gang_shares_out_the_devices_of_all_nodes() -> None:
    slices = [slice_(n, device("d0"), device("d1")) for n in ("a", "b")]
    claims = [claim(f"c{i}") for i in range(4)]
    world, plan = decided(*NODES, class_(), *slices, *claims, *[pod(f"p{i}", f"c{i}") for i in range(4)], minimum=4)
    assert len(plan.binds) == 4
    assert len(world.devices.in_use()) == 4


def test_gang_that_is_too_large_for_the_devices_takes_none() -> None:
    claims = [claim(f"c{i}") for i in range(3)]
    objects = [*NODES, class_(), slice_("a", device("d0"), device("d1")), *claims]
    world, plan = decided(*objects, *[pod(f"p{i}", f"c{i}") for i in range(3)], minimum=3)
    assert plan.binds == []
    assert world.devices.in_use() == set()


def test_pods_that_share_a_claim_go_where_it_is_allocated() -> None:
    slices = [slice_(n, device("d0")) for n in ("a", "b")]
    world, plan = decided(*NODES, class_(), *slices, claim(), pod("p"), pod("q"), minimum=2)
    assert len(set(worlds.binds(plan).values())) == 1
    assert len(world.devices.in_use()) == 1


def test_pod_is_looked_at_again_when_its_claim_has_been_made() -> None:
    """The claim may be known before the pod's status names it."""
    entries = [{"name": "e", "resourceClaimTemplateName": "t"}]
    waiting = worlds.pod("p", "g", resourceClaims=entries)
    waiting["metadata"]["generation"] = 1
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "ns-p", "controller": True}
    made = claim("p-e-x", meta={"ownerReferences": [owner]})
    world, _ = decided(*NODES, class_(), slice_("a", device("d")), made, waiting)
    before = world.schedulable_generation
    statuses = {"phase": "Pending", "resourceClaimStatuses": [{"name": "e", "resourceClaimName": "p-e-x"}]}
    worlds.feed(world, {**waiting, "status": statuses})
    assert world.schedulable_generation > before
    assert worlds.binds(worlds.cycle(world)) == {"ns/p": "a"}


def test_configuration_of_class_and_claim_goes_into_the_allocation() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"mode": "shared"}}}
    objects = [*NODES, class_("gpu", config=[opaque]), slice_("a", device("d")), claim("c", config=[opaque]), pod()]
    world, _ = decided(*objects)
    held = world.tasks["ns/p"].reservation
    assert held is not None
    assert held.devices["ns/c"]["devices"]["config"] == [
        {**opaque, "source": "FromClass", "requests": ["gpu"]},
        {**opaque, "source": "FromClaim"},
    ]
    assert held.devices["ns/c"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["a"]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_allocator_finds_devices_exactly_when_there_are_some(seed: int) -> None:
    """Against trying every way: requests with selectors and a constraint on one node."""
    rng = random.Random(seed)
    devices = [device(f"d{i}", rng.choice(["small", "big"]), numa=rng.randint(0, 1)) for i in range(rng.randint(0, 5))]
    wants = []
    for i in range(rng.randint(1, 3)):
        model = rng.choice(["", "small", "big"])
        texts = [f"device.attributes['{DRIVER}'].model == '{model}'"] if model else []
        wants.append((model, request(f"r{i}", 1, *texts)))
    same_numa = rng.random() < 0.5
    more = {"constraints": [{"matchAttribute": f"{DRIVER}/numa"}]} if same_numa else {}
    world = worlds.world(*NODES, class_(), slice_("a", *devices))
    view = msgspec.convert(claim("c", *[r for _, r in wants], **more), ResourceClaim)
    found = allocate(world.devices, [view], "a", 0, set())
    possible = any(
        all(not model or d["attributes"]["model"]["string"] == model for (model, _), d in zip(wants, way, strict=True))
        and (not same_numa or len({d["attributes"]["numa"]["int"] for d in way}) <= 1)
        for way in permutations(devices, len(wants))
    )
    assert (found is not None) == possible


@pytest.mark.parametrize(
    ("devices", "found"), [pytest.param(20, True, id="soon found"), pytest.param(70, False, id="given up before")]
)
def test_a_search_for_devices_is_given_up_after_many_steps(devices: int, found: bool) -> None:
    """Every way in which the first request gets one of the ten that the second wants all is tried, and is wrong."""
    models = [device(f"d{i:02}", "few" if i < 10 else "many") for i in range(devices)]
    all_few = request("few", 10, f"device.attributes['{DRIVER}'].model == 'few'")
    world = worlds.world(*NODES, class_(), slice_("a", *models))
    view = msgspec.convert(claim("c", request("any", 3), all_few), ResourceClaim)
    assert (allocate(world.devices, [view], "a", 0, set()) is not None) is found


def test_queues_tell_what_they_hold_of_devices_each_shared_claim_once() -> None:
    """Two pods of one queue share a claim; another has its own, of a queue with the same parent."""
    shared = claim("shared", request("gpu", 2))
    own = claim("own", request("gpu", 1, capacity={"requests": {"memory": "4Gi"}}))
    queues = [worlds.queue("root"), worlds.queue("a", parent="root"), worlds.queue("b", parent="root")]
    pods = []
    for name, queue, of in (("x", "a", "shared"), ("y", "a", "shared"), ("z", "b", "own")):
        pods += [worlds.group(name, 1, queue=queue), worlds.pod(name, name)]
        pods[-1]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": of}]
    devices = slice_("a", *[device(f"d{i}") for i in range(4)])
    made = worlds.world(*NODES, class_(), devices, shared, own, *queues, *pods)
    for _ in range(2):  # as reserved in the cycle, and as it stands after
        plan = worlds.cycle(made)
        held = {q.name: {k: v for k, v in q.allocated.items() if "deviceclass" in k} for q in plan.queues}
        memory = {"memory.deviceclass/gpu": str(4 << 30)}
        assert held["a"] == {"deviceclass/gpu": "2"}
        assert held["b"] == {"deviceclass/gpu": "1", **memory}
        assert held["root"] == {"deviceclass/gpu": "3", **memory}
