"""nodeorder: images at hand, soft taints, and rules about other pods, each with its weight."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.plugins.nodeorder import image_name
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
MIB = 1 << 20
OFF = dict.fromkeys(
    (
        "leastrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration", "imagelocality",
        "podtopologyspread",
    ),
    0,
)  # fmt: skip


def only(**weights: int) -> Json:
    return {"name": "nodeorder", "arguments": {f"{name}.weight": weight for name, weight in (OFF | weights).items()}}


def holding(name: str, **sizes: int) -> Json:
    made = worlds.node(name)
    made["status"]["images"] = [{"names": [f"{image}:1"], "sizeBytes": size * MIB} for image, size in sizes.items()]
    return made


def with_images(*images: str, inits: tuple[str, ...] = ()) -> Json:
    made = worlds.pod("p")
    made["spec"]["containers"] = [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]
    made["spec"]["initContainers"] = [{"name": f"i{i}", "image": image} for i, image in enumerate(inits)]
    return made


# an image on one node of two counts half; 23 MiB score 0, 1,000 MiB for each container score 100
IMAGES: list[Any] = [
    pytest.param(with_images("a:1"), {"x": 0.0, "y": 48.0}, id="half of 1,000 MiB, above 23"),
    pytest.param(with_images("a:1", "b:1"), {"x": 0.0, "y": 24.0}, id="of two containers each may have as much"),
    pytest.param(with_images("b:1", inits=("a:1",)), {"x": 0.0, "y": 24.0}, id="images of init containers count"),
    pytest.param(with_images("c:1"), {"x": 100.0, "y": 100.0}, id="on both nodes, and larger than counts"),
    pytest.param(with_images("d:1"), {"x": 0.0, "y": 0.0}, id="smaller than counts"),
    pytest.param(with_images("e:1"), {"x": 0.0, "y": 0.0}, id="nowhere"),
]


@pytest.mark.parametrize(("pod", "scores"), IMAGES)
def test_images(pod: Json, scores: dict[str, float]) -> None:
    nodes = [holding("x", c=3000, d=20), holding("y", a=1000, c=3000, d=20)]
    assert asking.scores(asking.session(worlds.world(*nodes, pod), only(imagelocality=1)), "p") == scores


NAMES = [
    ("a", "a:latest"),
    ("a:1", "a:1"),
    ("h:5000/a", "h:5000/a:latest"),
    ("h:5000/a:2", "h:5000/a:2"),
    ("", ":latest"),
]


@pytest.mark.parametrize(("image", "name"), NAMES)
def test_names_of_images(image: str, name: str) -> None:
    assert image_name(image) == name


def soft(key: str, effect: str = "PreferNoSchedule") -> Json:
    return {"key": key, "value": "", "effect": effect}


def test_soft_taints_that_are_not_tolerated_count_and_hard_ones_do_not() -> None:
    taints = {"none": [], "hard": [soft("h", "NoSchedule")], "one": [soft("a")], "two": [soft("a"), soft("b")]}
    nodes = [worlds.node(name, taints=given) for name, given in {**taints, "tolerated": [soft("t")]}.items()]
    pod = worlds.pod("p", tolerations=[{"key": "t", "operator": "Exists"}])
    found = asking.scores(asking.session(worlds.world(*nodes, pod), only(tainttoleration=1)), "p")
    assert found == {"none": 100.0, "hard": 100.0, "one": 50.0, "two": 0.0, "tolerated": 100.0}


def test_affinity_and_spread_add_up_and_can_be_switched_off() -> None:
    nodes = [worlds.node(name) for name in ("near", "far")]
    other = worlds.pod("o", labels={"app": "a"}, phase="Running", nodeName="near")
    selector = {"matchLabels": {"app": "a"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    constraints = [{**spread, "labelSelector": selector}]
    pod = worlds.pod("p", labels={"app": "a"}, affinity={"podAffinity": wish}, topologySpreadConstraints=constraints)
    found = {}
    for weights in ((1, 0), (0, 1), (3, 1), (0, 0)):
        plugin = only(podaffinity=weights[0], podtopologyspread=weights[1])
        scores = asking.scores(asking.session(worlds.world(*nodes, other, pod), plugin), "p")
        found[weights] = (scores["near"], scores["far"])
    assert found[1, 0] == (100.0, 0.0)
    assert found[0, 1][0] < found[0, 1][1]
    assert found[3, 1] == tuple(3 * a + b for a, b in zip(found[1, 0], found[0, 1], strict=True))
    assert found[0, 0] == (0.0, 0.0)
