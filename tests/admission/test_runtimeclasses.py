"""Runtime classes at admission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.admission.runtimeclasses import merge_tolerations
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from tests.server.asking import MERGE, Client

CLASSES, PODS = "/apis/node.k8s.io/v1/runtimeclasses", "/api/v1/namespaces/default/pods"
TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
FAST = {
    "metadata": {"name": "fast"},
    "handler": "fast",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"zone": "a"}, "tolerations": [TOLERATION]},
}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


@pytest.fixture
async def client() -> Client:
    client = Client(in_memory_server(VirtualClock()))
    await client.ask("POST", CLASSES, FAST)
    return client


async def test_a_class_says_what_its_pods_cost_and_where_they_run(client: Client) -> None:
    for _ in range(3):  # the later ones come from the cache of creations
        spec = (await client.ask("POST", PODS, pod(runtimeClassName="fast")))["spec"]
        assert spec["overhead"] == {"cpu": "250m"}
        assert spec["nodeSelector"] == {"zone": "a"}
        assert TOLERATION in spec["tolerations"]
        assert len(spec["tolerations"]) == 3
    await client.ask("PATCH", f"{CLASSES}/fast", {"overhead": {"podFixed": {"cpu": "1"}}}, MERGE)
    spec = (await client.ask("POST", PODS, pod(runtimeClassName="fast")))["spec"]
    assert spec["overhead"] == {"cpu": "1"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"runtimeClassName": "fast", "overhead": {"cpu": "1"}}, "Overhead doesn't match RuntimeClass's"),
        ({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        (
            {"runtimeClassName": "fast", "nodeSelector": {"zone": "b"}},
            "conflict: runtimeClass.scheduling.nodeSelector[zone] = a; pod.spec.nodeSelector[zone] = b",
        ),
    ],
)
async def test_a_pod_that_says_otherwise_is_refused(client: Client, spec: dict[str, Any], says: str) -> None:
    assert says in (await client.ask("POST", PODS, pod(**spec), code=403))["message"]


async def test_the_same_overhead_in_other_words_is_the_same(client: Client) -> None:
    made = await client.ask("POST", PODS, pod(runtimeClassName="fast", overhead={"cpu": "0.25"}))
    assert made["spec"]["overhead"] == {"cpu": "250m"}


async def test_pods_of_a_class_that_is_gone_are_refused(client: Client) -> None:
    await client.ask("POST", PODS, pod(runtimeClassName="fast"))
    await client.ask("DELETE", f"{CLASSES}/fast")
    await client.ask("POST", PODS, pod(runtimeClassName="fast"), code=403)


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"handler": ""}, "handler"),
        ({"handler": "No Label"}, "handler"),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, "overhead.limits[cpu]"),
        ({"scheduling": {"nodeSelector": {"a b": "c"}}}, "scheduling.nodeSelector"),
        ({"scheduling": {"tolerations": [{"operator": "Odd", "key": "a"}]}}, "scheduling.tolerations[0].operator"),
    ],
)
async def test_a_class_is_checked(client: Client, members: dict[str, Any], field: str) -> None:
    body = {"metadata": {"name": "x"}, "handler": "h", **members}
    refused = await client.ask("POST", CLASSES, body, code=422)
    assert field in [cause["field"] for cause in refused["details"]["causes"]]


async def test_the_handler_of_a_class_stays(client: Client) -> None:
    refused = await client.ask("PATCH", f"{CLASSES}/fast", {"handler": "else"}, MERGE, code=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["handler"]


TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "a", "b"]),
        "operator": st.sampled_from(["Equal", "Exists"]),
        "value": st.sampled_from(["x", "y"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        "tolerationSeconds": st.integers(0, 2),
    },
)


def tolerates(toleration: dict[str, Any], key: str, value: str, effect: str, seconds: int) -> bool:
    """Say it in the words of the API's reference: does the toleration match a taint, and for how long."""
    if toleration.get("effect") not in (None, effect):
        return False
    if toleration.get("effect") == "NoExecute" and toleration.get("tolerationSeconds", seconds) < seconds:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", key)
    return (toleration.get("key") or "", toleration.get("value")) == (key, value)


@given(st.lists(TOLERATIONS, max_size=6))
def test_merged_tolerations_tolerate_the_same(tolerations: list[dict[str, Any]]) -> None:
    merged = merge_tolerations(tolerations)
    assert all(one in tolerations for one in merged)
    for key in ("a", "b"):
        for effect in ("NoSchedule", "NoExecute"):
            for seconds in (0, 1, 2):
                asked = (key, "x", effect, seconds)
                assert any(tolerates(one, *asked) for one in merged) == any(tolerates(t, *asked) for t in tolerations)
