"""The queue scenarios of examples/queues: weight, borrowing and capability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.conftest import EXAMPLES
from tests.e2e.worlds import World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.own_nodes]


@pytest.fixture
def scenario(world: World, namespace: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Apply one file of examples/queues; jobs go into the test's namespace."""
    path = EXAMPLES / "queues" / f"{request.param}.yaml"
    # All jobs must wait before any runs: otherwise the first one takes what is idle, as it should.
    world.kubectl("cordon", "--selector", "node.kubernetes.io/instance-type=hollow")
    world.kubectl("apply", "-n", namespace, "-f", str(path))
    jobs = sum(document["kind"] == "Job" for document in yaml.safe_load_all(path.read_text()))
    eventually(lambda: len(world.items("pods", "-n", namespace)) == 16 * jobs, what="all pods wait")
    world.kubectl("uncordon", "--selector", "node.kubernetes.io/instance-type=hollow")
    yield namespace
    world.kubectl("delete", "jobs.batch.volcano.sh", "--all", "-n", namespace)
    eventually(lambda: not world.items("podgroups", "-n", namespace), what="no pod groups are left")
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "Queue":
            name = document["metadata"]["name"]
            eventually(
                lambda name=name: (
                    world.strato("queue", "operate", "-n", name, "-a", "close", check=False)
                    and world.get("queue", name)["status"].get("state") == "Closed"
                ),
                what=f"queue {name} is closed",
                every=0.5,
            )
            world.kubectl("delete", "queue", name)


def placed(world: World, namespace: str) -> Counter[str]:
    """Return the number of placed pods per job."""
    return Counter(
        pod["metadata"]["labels"]["volcano.sh/job-name"]
        for pod in world.items("pods", "-n", namespace)
        if pod["spec"].get("nodeName")
    )


@pytest.mark.parametrize("scenario", ["weights"], indirect=True)
def test_two_full_queues_share_by_weight(world: World, scenario: str) -> None:
    eventually(lambda: sum(placed(world, scenario).values()) == 16, what="all 16 cpus are used")
    assert placed(world, scenario) == {"research": 4, "production": 12}


@pytest.mark.parametrize("scenario", ["borrowing"], indirect=True)
def test_a_queue_borrows_the_idle_share(world: World, scenario: str) -> None:
    eventually(lambda: placed(world, scenario) == {"research": 16}, what="research runs 16 pods")


@pytest.mark.parametrize("scenario", ["capability"], indirect=True)
def test_a_capability_caps_a_queue(world: World, scenario: str) -> None:
    eventually(lambda: placed(world, scenario) == {"capped": 5}, what="capped runs 5 pods")
    text = world.strato("queue", "get", "-n", "capped")
    assert text.splitlines()[1].split()[:3] == ["capped", "1", "Open"]
    waiting = next(pod for pod in world.items("pods", "-n", scenario) if not pod["spec"].get("nodeName"))
    assert "capped" in world.strato("explain", "-n", scenario, f"pod/{waiting['metadata']['name']}")
