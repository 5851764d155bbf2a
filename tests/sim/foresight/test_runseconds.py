"""What pods say of their run times is read by one rule, whoever asks."""

from __future__ import annotations

import math

import pytest

from strato.node.hollow.runplan import certain_seconds
from strato.scheduler.dryrun.run import build, decode_all
from strato.scheduler.model.estimates import seconds_of
from strato.sim.foresight.runseconds import expected_seconds, known_seconds
from strato.sim.foresight.whenjobs import submission_of
from strato.testing.manifests import pod
from strato.testing.scenes import cluster

CERTAIN = [
    ("600", 600.0),
    ("0", 0.0),
    ("inf", math.inf),
    ("constant 5", 5.0),
    ("uniform low=3 high=3", 3.0),
    ("uniform low=1 high=3", None),
    ("normal mean=60 stddev=1", None),
    ("-5", None),
    ("nan", None),
    ("soon", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "seconds"), CERTAIN, ids=[text or "empty" for text, _ in CERTAIN])
def test_what_a_pod_says_of_its_run(text: str, seconds: float | None) -> None:
    """As the hollow node runs it: what that ignores says nothing, and a distribution nothing certain."""
    scene = cluster().queue("default").node("n", cpu="4").pod_group("one")
    scene = scene.add(pod("one", cpu="1", group="one").annotate("strato.dev/run-seconds", text))
    world = build(decode_all([(str(number), dict(obj)) for number, obj in enumerate(scene)]))
    task = world.tasks["default/one"]
    assert certain_seconds(task.pod.metadata.annotations) == seconds
    assert known_seconds(task) == seconds
    assert expected_seconds(7.0)(world, task) == (7.0 if seconds is None else seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600", 600.0), ("1.5", 1.5), ("0", 0.0), ("-1", None), ("nan", None), ("inf", None), ("1h", None), ("", None)],
)
def test_what_a_user_expects(text: str, seconds: float | None) -> None:
    scene = cluster().queue("default").node("n", cpu="4").pod_group("one")
    scene = scene.add(pod("one", cpu="1", group="one").annotate("strato.dev/expected-seconds", text))
    world = build(decode_all([(str(number), dict(obj)) for number, obj in enumerate(scene)]))
    task = world.tasks["default/one"]
    assert task.job is not None
    assert seconds_of(text) == seconds
    assert submission_of(task.job, task).estimate_seconds == seconds
    assert world.runtimes.expected_seconds(task) == seconds
