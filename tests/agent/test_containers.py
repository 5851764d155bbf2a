"""What a pod says about its containers: who runs, with which limits, and who was cut."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.agent.containers import ContainerFacts, facts_of
from strato.api.core import Pod
from strato.api.suppression import SUPPRESSED_CONTAINERS

Json = dict[str, Any]
RUNNING: Json = {"running": {"startedAt": "1970-01-01T00:01:00Z"}}
ENDED: Json = {"terminated": {"exitCode": 0}}
CUT = '{"main":{"id":"x://main","from":"4000","to":1000,"at":"1970-01-01T00:00:30Z"}}'


def container(name: str, requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    return {"name": name, "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def status(name: str, state: Json) -> Json:
    return {"name": name, "containerID": f"x://{name}", "state": state}


def facts(
    *mains: Json, inits: tuple[Json, ...] = (), states: Json | None = None, static_cpus: bool = False, **metadata: Any
) -> dict[str, ContainerFacts]:
    """Return what is known of a pod's containers; those that ``states`` does not name run."""
    given = states or {}
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", **metadata},
        "spec": {"containers": list(mains), "initContainers": list(inits)},
        "status": {
            "phase": "Running",
            "containerStatuses": [status(one["name"], given.get(one["name"], RUNNING)) for one in mains],
            "initContainerStatuses": [status(one["name"], given.get(one["name"], RUNNING)) for one in inits],
        },
    }
    return {one.name: one for one in facts_of(msgspec.convert(body, Pod, strict=False), static_cpus=static_cpus)}


def test_sidecars_count_and_init_containers_do_not() -> None:
    inits = container("first"), container("beside", restartPolicy="Always")
    found = facts(container("main"), container("other"), inits=inits)
    assert {name: one.is_sidecar for name, one in found.items()} == {"beside": True, "main": False, "other": False}
    assert found["main"].key == "u/main"


def test_only_what_runs_is_there() -> None:
    states = {"ended": ENDED, "waits": {"waiting": {"reason": "ImagePull"}}}
    found = facts(container("ended"), container("main"), container("waits"), states=states)
    assert {name: (one.id, one.started_at) for name, one in found.items()} == {"main": ("x://main", 60.0)}
    assert facts(container("main"), deletionTimestamp="1970-01-01T00:00:30Z") == {}


@pytest.mark.parametrize(
    ("requests", "limits", "own", "base"),
    [
        pytest.param({"cpu": "500m"}, {"cpu": "2"}, 500, 2000, id="both"),
        pytest.param({}, {"cpu": "2"}, 2000, 2000, id="the limit is the request too"),
        pytest.param({"cpu": "500m"}, {}, 500, None, id="no limit"),
        pytest.param({"cpu": "0"}, {"cpu": "0"}, 0, None, id="zero is none"),
        pytest.param({"kubernetes.io/batch-cpu": "700"}, {"kubernetes.io/batch-cpu": "900"}, 700, 900, id="left over"),
        pytest.param(
            {"cpu": "1", "kubernetes.io/batch-cpu": "700"}, {"cpu": "2", "kubernetes.io/batch-cpu": "900"}, 1000, 2000,
            id="one's own before what is left over",
        ),
        pytest.param({}, {}, 0, None, id="nothing"),
    ],
)  # fmt: skip
def test_what_is_asked_for(requests: Json, limits: Json, own: int, base: int | None) -> None:
    found = facts(container("main", requests, limits))["main"]
    assert (found.request_milli, found.base_milli) == (own, base)


@pytest.mark.parametrize(
    ("cpu", "memory", "static", "alone"),
    [
        pytest.param("2", "1Gi", True, True, id="whole CPUs of a guaranteed pod"),
        pytest.param("2", "1Gi", False, False, id="of a node that gives none"),
        pytest.param("1500m", "1Gi", True, False, id="parts of one"),
        pytest.param("2", "", True, False, id="the pod is not guaranteed"),
    ],
)
def test_who_has_cpus_for_itself(cpu: str, memory: str, static: bool, alone: bool) -> None:
    amounts = {"cpu": cpu, **({"memory": memory} if memory else {})}
    assert facts(container("main", amounts, amounts), static_cpus=static)["main"].has_exclusive_cpus == alone


@pytest.mark.parametrize(
    ("label", "amounts", "expected"),
    [
        pytest.param({}, {}, True, id="by its QoS class"),
        pytest.param({}, {"cpu": "1"}, False, id="who asks for something is not"),
        pytest.param({"koordinator.sh/qosClass": "BE"}, {"cpu": "1"}, True, id="by its label"),
        pytest.param({"koordinator.sh/qosClass": "LS"}, {}, False, id="the label wins"),
    ],
)
def test_who_is_best_effort(label: Json, amounts: Json, expected: bool) -> None:
    assert facts(container("main", amounts), labels=label)["main"].is_best_effort == expected


def test_a_cut_is_that_of_the_container_it_was_written_for() -> None:
    annotations = {SUPPRESSED_CONTAINERS: CUT}
    found = facts(container("main"), container("other"), annotations=annotations)
    cut = found["main"].suppression
    assert cut is not None
    assert (cut.from_milli, cut.to_milli, cut.at) == (4000, 1000, 30.0)
    assert found["other"].suppression is None
    again = CUT.replace("x://main", "x://before")
    assert facts(container("main"), annotations={SUPPRESSED_CONTAINERS: again})["main"].suppression is None
