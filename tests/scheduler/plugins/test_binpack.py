"""binpack: what its arguments mean."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def scores(**arguments: Any) -> dict[str, float]:
    """Return the scores of an empty node and of a half full one, for a pod that takes a quarter of cpu and gpus."""
    nodes = [worlds.node(name, cpu="8", memory="80Gi", **{GPU: 8}) for name in ("empty", "half")]
    held = worlds.pod("r", cpu="4", memory="40Gi", resources={GPU: "4"}, phase="Running", nodeName="half")
    asks = worlds.pod("p", cpu="2", memory="8Gi", resources={GPU: "2"})
    given = {
        f"binpack.{key}" if key != "gpu" else f"binpack.resources.{GPU}": value for key, value in arguments.items()
    }
    ssn = asking.session(worlds.world(*nodes, held, asks), {"name": "binpack", "arguments": given})
    return asking.scores(ssn, "p")


# fractions used after placing: cpu and gpus 2/8 and 6/8, memory 0.1 and 0.6
SCORES: list[Any] = [
    pytest.param({}, 17.5, 67.5, id="cpu and memory alike"),
    pytest.param({"cpu": 3}, 100 * (3 * 0.25 + 0.1) / 4, 100 * (3 * 0.75 + 0.6) / 4, id="cpu three times"),
    pytest.param({"memory": 3}, 100 * (0.25 + 3 * 0.1) / 4, 100 * (0.75 + 3 * 0.6) / 4, id="memory three times"),
    pytest.param({"cpu": 0}, 10, 60, id="a weight of 0 leaves a resource out"),
    pytest.param({"cpu": -5}, 17.5, 67.5, id="a negative one counts as 1"),
    pytest.param({"resources": GPU}, 20, 70, id="another resource counts once by default"),
    pytest.param({"resources": f" {GPU} ,"}, 20, 70, id="spaces and commas do not matter"),
    pytest.param({"resources": GPU, "gpu": 2}, 100 * (0.25 + 0.1 + 0.5) / 4, 100 * (0.75 + 0.6 + 1.5) / 4, id="twice"),
    pytest.param({"resources": GPU, "gpu": 0}, 17.5, 67.5, id="or not at all"),
    pytest.param({"resources": "ephemeral-storage, nothing.example.com/x"}, 17.5, 67.5, id="what nobody asks for"),
    pytest.param({"weight": 3}, 52.5, 202.5, id="the weight of it all"),
    pytest.param({"weight": 0}, 0, 0, id="switched off"),
]


@pytest.mark.parametrize(("arguments", "empty", "half"), SCORES)
def test_scores(arguments: Json, empty: float, half: float) -> None:
    assert scores(**arguments) == pytest.approx({"empty": empty, "half": half})


def test_switched_off_it_says_nothing() -> None:
    world = worlds.world(worlds.node("n"), worlds.pod("p"))
    for weight, terms in ((1, 1), (0, 0)):
        ssn = asking.session(world, {"name": "binpack", "arguments": {"binpack.weight": weight}})
        assert len(ssn.answers["resource_terms"]) == terms
