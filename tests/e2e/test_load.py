"""`strato sim load` against a cluster: the table, the picture, a test that fails, Ctrl-C; nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e

TEST = """kind: LoadTest
load: {{trace: "lublin:jobs=6,nodes=4", rate: 5/s, as: pods, runSeconds: 1, limit: 6}}
drainSeconds: 120
expectations:
  endedPercent: {{min: {percent}}}
  failedRequests: {{max: 0}}
"""


def _nothing_is_left(world: World) -> None:
    def left() -> list[str]:
        return [
            item["metadata"]["name"]
            for item in world.items("namespaces")
            if item["metadata"]["name"].startswith("strato-load-")
        ]

    eventually(lambda: not left(), what="the namespaces of loads are gone", every=0.5)


def test_load_of_a_model_is_followed_to_its_end(world: World, tmp_path: Path) -> None:
    picture = tmp_path / "load.svg"
    options = ("--rate", "4/s", "--run-time", "1s", "--limit", "6", "--drain", "120s", "-o", "json")
    text = world.strato("sim", "load", "lublin:jobs=6,nodes=4", *options, "--picture", str(picture))
    document = json.loads(text)
    assert document["submissions"] == 6
    assert document["reached"]["ended"] == document["pods"]
    assert document["latencySeconds"]["bound"]["p99"] < document["latencySeconds"]["ended"]["p99"]
    assert picture.read_text().startswith("<?xml")
    _nothing_is_left(world)
    assert [
        queue["metadata"]["name"] for queue in world.items("queues") if queue["metadata"]["name"] == "interactive"
    ] == []


@pytest.mark.parametrize(("percent", "verdict"), [(99, "pass"), (101, "FAIL")])
def test_performance_test_passes_or_fails(world: World, tmp_path: Path, percent: int, verdict: str) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(TEST.format(percent=percent))
    output = world.strato("sim", "load", str(path), check=False)
    assert f"{verdict} endedPercent" in output
    assert "pass failedRequests = 0" in output
    _nothing_is_left(world)
