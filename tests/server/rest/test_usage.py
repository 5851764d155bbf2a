"""metrics.k8s.io over pods of hollow nodes, and over what this machine's node measures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from strato.api.metrics import Used, hollow_usage
from strato.api.wire import Request
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from tests.server.asking import ADMIN, MERGE, Client

PODS, METRICS = "/api/v1/namespaces/default/pods", "/apis/metrics.k8s.io/v1beta1"
REQUESTS = {"requests": {"cpu": "500m", "memory": "64Mi"}}


async def put_pod(client: Client, name: str, node: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "i", "resources": REQUESTS}, {"name": "b", "image": "i"}]
    body = {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node, "containers": containers}}
    made: dict[str, Any] = await client.ask("POST", PODS, body)
    state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 0}}
    statuses = [
        {"name": one["name"], "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        for one in containers
    ]
    await client.ask(
        "PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase, "containerStatuses": statuses}}, MERGE
    )
    return made


@pytest.fixture
async def client() -> Client:
    client = Client(in_memory_server(VirtualClock(), Random(1)))
    for name, kind in (("h", "hollow"), ("machine", "sandbox")):
        labels = {"node.kubernetes.io/instance-type": kind}
        await client.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    return client


async def test_pods_of_hollow_nodes_use_what_they_request(client: Client) -> None:
    await put_pod(client, "p", "h", labels={"app": "x"})
    await put_pod(client, "half", "h", annotations={"strato.dev/usage-ratio": "0.5"})
    await put_pod(client, "over", "h", "Succeeded")
    await put_pod(client, "unknown", "machine")
    listed = await client.ask("GET", f"{METRICS}/namespaces/default/pods")
    assert listed["kind"] == "PodMetricsList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["half", "p"]
    usages = [item["containers"][0] for item in listed["items"]]
    assert usages == [
        {"name": "a", "usage": {"cpu": "250000000n", "memory": "32768Ki"}},
        {"name": "a", "usage": {"cpu": "500000000n", "memory": "65536Ki"}},
    ]
    one = await client.ask("GET", f"{METRICS}/namespaces/default/pods/p")
    assert (one["kind"], one["containers"], one["window"]) == (
        "PodMetrics",
        listed["items"][1]["containers"],
        "15.000s",
    )
    for query, found in (({"labelSelector": "app=x"}, 1), ({"fieldSelector": "metadata.name=half"}, 1)):
        assert len((await client.ask("GET", f"{METRICS}/pods", **query))["items"]) == found
    for name in ("over", "unknown", "none"):
        refused = await client.ask("GET", f"{METRICS}/namespaces/default/pods/{name}", code=404)
        assert refused["message"] == f'pods.metrics.k8s.io "{name}" not found'
    nodes = await client.ask("GET", f"{METRICS}/nodes")
    assert [(item["metadata"]["name"], item["usage"]["cpu"]) for item in nodes["items"]] == [("h", "750000000n")]


async def test_this_machines_pods_use_what_was_measured(client: Client) -> None:
    uid = (await put_pod(client, "p", "machine"))["metadata"]["uid"]

    class Source:
        def measure(self) -> Mapping[str, Mapping[str, Used]]:
            return {uid: {"a": Used(7, 2048, 10.0)}, "machine": {"": Used(9, 4096, 20.0)}}

    client.server.use_metrics(Source())
    (item,) = (await client.ask("GET", f"{METRICS}/pods"))["items"]
    assert (item["containers"], item["window"]) == ([{"name": "a", "usage": {"cpu": "7n", "memory": "2Ki"}}], "10.000s")
    node = await client.ask("GET", f"{METRICS}/nodes/machine")
    assert (node["usage"], node["window"]) == ({"cpu": "9n", "memory": "4Ki"}, "20.000s")


@pytest.mark.parametrize("ratio", ["nan", "inf", "-1", "much", ""])
def test_a_ratio_that_is_none_is_one(ratio: str) -> None:
    pod = {
        "metadata": {"annotations": {"strato.dev/usage-ratio": ratio}},
        "spec": {"containers": [{"name": "a", "resources": REQUESTS}]},
        "status": {"containerStatuses": [{"name": "a", "state": {"running": {}}}]},
    }
    assert hollow_usage(pod, 0.0) == {"a": Used(500_000_000, 64 << 20)}


@pytest.mark.parametrize(
    ("demand", "limit", "now", "cores"),
    [
        ("2.5", "", 0.0, 2.5),
        ("2.5", "2", 0.0, 2.0),
        ("phases 60s=1 10m=6", "", 1_700_000_030.0, 1.0),
        ("phases 60s=1 10m=6", "", 1_700_000_090.0, 6.0),
        ("daily low=1 high=3 peak=12h", "", 43_200.0 + 1, 3.0),
        ("much", "", 0.0, 0.5),
    ],
    ids=["constant", "at most the limit", "the first phase", "the second", "by the clock", "unreadable: the request"],
)
def test_a_pod_with_a_demand_uses_what_it_wants(demand: str, limit: str, now: float, cores: float) -> None:
    resources = {**REQUESTS, **({"limits": {"cpu": limit}} if limit else {})}
    pod = {
        "metadata": {"name": "p", "annotations": {"strato.dev/cpu-demand": demand}},
        "spec": {"containers": [{"name": "a", "resources": resources}]},
        "status": {"containerStatuses": [{"name": "a", "state": {"running": {"startedAt": "2023-11-14T22:13:20Z"}}}]},
    }
    used = hollow_usage(pod, now)["a"]
    assert used.cpu_nanocores == pytest.approx(cores * 1e9, rel=0.001)
    assert used.memory_bytes == 64 << 20


async def test_a_table_has_what_is_used(client: Client) -> None:
    await put_pod(client, "p", "h")
    asked = Request(
        "GET", f"{METRICS}/pods", {}, {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, b"", ADMIN
    )
    table = json.loads((await client.server.handle(asked)).body)
    assert [row["cells"] for row in table["rows"]] == [["p", "500m", "64Mi", "15.000s"]]


async def test_nothing_can_be_written(client: Client) -> None:
    await client.ask("POST", f"{METRICS}/nodes", {"metadata": {"name": "n"}}, code=405)
    await client.ask("DELETE", f"{METRICS}/nodes/h", code=405)
