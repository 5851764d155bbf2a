"""The policy of `examples/training-policy`: gang, then priority, then dominant share; queues share by weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from strato.testing.decisions import decide
from strato.testing.scenes import Scene, cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "training-policy"
CONFIG = (EXAMPLE / "scheduler.yaml").read_text()
QUEUES = list(yaml.safe_load_all((EXAMPLE / "queues.yaml").read_text()))
REC, SEARCH = "rec-queue", "search-queue"


def world(cpus: int) -> Scene:
    return cluster().nodes(1, cpu=cpus, memory="4Ti", pods=2000).add(*QUEUES)


def by_queue(pods: Iterable[str]) -> dict[str, int]:
    return dict(Counter("search" if "search" in pod else "rec" for pod in pods))


@pytest.mark.parametrize(
    ("rec", "search", "wanted"),
    [
        pytest.param(90, 0, {"rec": 60}, id="a queue that is alone borrows the other's share"),
        pytest.param(0, 90, {"search": 60}, id="so does the smaller one"),
        pytest.param(90, 90, {"rec": 40, "search": 20}, id="both want more: 2 to 1"),
        pytest.param(90, 5, {"rec": 55, "search": 5}, id="what one does not ask for is the other's"),
    ],
)
def test_queues_share(rec: int, search: int, wanted: dict[str, int]) -> None:
    scene = world(60)
    for queue, name, count in ((REC, "rec", rec), (SEARCH, "search", search)):
        for number in range(count):
            scene = scene.gang(f"{name}-{number}", 1, queue=queue, phase="Inqueue", cpu=1)
    assert by_queue(decide(scene, config=CONFIG, cycles=3).binds) == wanted


def test_what_was_borrowed_is_reclaimed() -> None:
    scene = world(12)
    for number in range(12):
        scene = scene.pod_group(f"rec-{number}", queue=REC, min_member=1, phase="Running")
        scene = scene.pod(f"rec-{number}-0", group=f"rec-{number}", cpu=1, on="node-0")
    for number in range(12):
        scene = scene.gang(f"search-{number}", 1, queue=SEARCH, phase="Inqueue", cpu=1)
    decisions = decide(scene, config=CONFIG, cycles=6)
    assert by_queue(decisions.evicted) == {"rec": 4}
    assert by_queue(decisions.binds) == {"search": 4}


def test_priority_goes_before_dominant_share_and_that_before_names() -> None:
    scene = world(4)
    # the urgent job's queue fellow holds nothing yet; "a" comes first by name, "b" by priority
    scene = scene.pod_group("a", queue=REC, min_member=2, phase="Inqueue", priority_class="p1-pri")
    scene = scene.pods(2, prefix="a", group="a", cpu=1, priority_class="p1-pri")
    scene = scene.pod_group("b", queue=REC, min_member=4, phase="Inqueue", priority_class="p0-pri")
    scene = scene.pods(4, prefix="b", group="b", cpu=1, priority_class="p0-pri")
    assert {pod.split("/")[1][0] for pod in decide(scene, config=CONFIG).binds} == {"b"}


def test_of_equal_priority_the_smaller_dominant_share_is_first() -> None:
    scene = world(5)
    scene = scene.pod_group("a", queue=REC, min_member=1, phase="Running")
    scene = scene.pod("a-0", group="a", cpu=2, on="node-0").pod("a-1", group="a", cpu=2, on="node-0")
    scene = scene.pod("a-2", group="a", cpu=1)
    scene = scene.pod_group("b", queue=REC, min_member=1, phase="Running")
    scene = scene.pod("b-0", group="b", cpu=0, on="node-0").pod("b-1", group="b", cpu=1)
    assert set(decide(scene, config=CONFIG).binds) == {"default/b-1"}


def test_a_gang_that_is_not_complete_goes_before_a_more_urgent_one_that_is() -> None:
    scene = world(3)
    scene = scene.pod_group("urgent", queue=REC, min_member=1, phase="Running", priority_class="p0-pri")
    scene = scene.pod("urgent-0", group="urgent", cpu=1, on="node-0", priority_class="p0-pri")
    scene = scene.pod("urgent-1", group="urgent", cpu=1, priority_class="p0-pri")
    scene = scene.pod_group("waiting", queue=REC, min_member=2, phase="Inqueue", priority_class="p1-pri")
    scene = scene.pods(2, prefix="waiting", group="waiting", cpu=1, priority_class="p1-pri")
    assert set(decide(scene, config=CONFIG).binds) == {"default/waiting-0", "default/waiting-1"}
