"""What-if: changes combined on a copy, both states run forward, the fewest nodes that start everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.node.shapes import parse_nodes
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.dryrun.run import decode_all
from strato.scheduler.dryrun.states import START, ManifestState
from strato.scheduler.dryrun.trial import Copy
from strato.sim.foresight import whatif
from strato.sim.foresight.forward import run_forward
from strato.sim.foresight.runseconds import expected_seconds
from strato.sim.foresight.whatif_report import to_json, to_table
from strato.sim.foresight.whatif_state import job_names, with_late_pods
from strato.testing.manifests import pod
from strato.testing.scenes import Scene, cluster
from tests.sim.recording.recordings import NEVER_PREEMPTING, PREEMPTING

DAY = 86_400.0
SHAPE = parse_nodes("1x4cpu,16Gi")[0]


def state_of(scene: Scene) -> ManifestState:
    return ManifestState([(f"object {number}", dict(obj)) for number, obj in enumerate(scene)])


def copy_of(scene: Scene, config: str = "") -> Copy:
    policy = parse_config(config) if config else default_config()
    return Copy(decode_all(state_of(scene).objects), policy, 0, START)


def running(scene: Scene, name: str, on: str, seconds: float | None, cpu: str = "4") -> Scene:
    """Add a gang of one that runs, for so long when that is known."""
    notes = {} if seconds is None else {"strato.dev/expected-seconds": str(seconds)}
    made = pod(name, cpu=cpu, group=name).on(on).status(phase="Running", startTime="2023-11-14T22:13:20Z")
    for key, value in notes.items():
        made = made.annotate(key, value)
    return scene.pod_group(name, phase="Running").add(made)


def full(seconds: float | None = 600.0, *, nodes: int = 2) -> Scene:
    """Return nodes of 4 cpus that are full, for so long."""
    scene = cluster().queue("default").nodes(nodes, cpu="4", memory="16Gi")
    for number in range(nodes):
        scene = running(scene, f"busy-{number}", f"node-{number}", seconds)
    return scene


def forecast(copy: Copy, **options: Any) -> Any:
    return run_forward(copy, expected_seconds(), horizon_seconds=options.pop("horizon", DAY), **options)


def test_a_gang_starts_when_what_runs_ends() -> None:
    found = forecast(copy_of(full().gang("train", 2, cpu="4")))
    (job,) = found.jobs.values()
    assert job.starts_at == pytest.approx(600.0)
    assert found.waiting == []
    assert found.unknown == 2  # nobody knows how long train runs


def test_what_never_ends_lets_nothing_start_and_is_counted() -> None:
    found = forecast(copy_of(full(None).gang("train", 2, cpu="4")))
    (job,) = found.waiting
    assert job.starts_at is None
    assert job.reason
    assert found.unknown == 2


def test_a_default_run_time_counts_for_what_nobody_knows() -> None:
    found = run_forward(copy_of(full(None).gang("train", 2, cpu="4")), expected_seconds(100.0))
    assert [job.starts_at for job in found.jobs.values()] == [pytest.approx(100.0)]


def test_what_has_run_longer_than_expected_runs_a_quarter_longer_still() -> None:
    late = Copy(decode_all(state_of(full(600.0).gang("train", 2, cpu="4")).objects), default_config(), 0, START + 1000)
    (job,) = forecast(late).jobs.values()
    assert job.starts_at == pytest.approx(250.0)


def test_the_horizon_ends_the_look_ahead() -> None:
    found = forecast(copy_of(full(7200.0).gang("train", 2, cpu="4")), horizon=3600.0)
    assert found.is_cut
    assert len(found.waiting) == 1


def test_queued_jobs_start_one_after_the_other() -> None:
    scene = full(600.0, nodes=1)
    for number in range(3):
        name = f"next-{number}"
        made = pod(name, cpu="4", group=name).annotate("strato.dev/run-seconds", "100")
        made = made.set("metadata", {**made["metadata"], "creationTimestamp": f"2023-11-14T22:13:2{number}Z"})
        scene = scene.pod_group(name).add(made)
    found = forecast(copy_of(scene))
    assert sorted(job.starts_at for job in found.jobs.values()) == pytest.approx([600.0, 700.0, 800.0])


def test_changes_work_together() -> None:
    before = copy_of(full(None).queue("b", weight=1).gang("train", 3, cpu="4", queue="b"))
    changes = [
        whatif.nodes_added("3x4cpu,16Gi"),
        whatif.drained(before, "node-0"),
        whatif.queue_set(before, "b.weight=5"),
    ]
    after = whatif.applied(before, changes)
    answer = whatif.what_if(before, after, [change.text for change in changes], expected_seconds(), horizon_seconds=DAY)
    assert [job.name for job in answer.before.waiting] == ["default/train"]
    assert {job.name: job.starts_at for job in answer.after.jobs.values()}["default/train"] == 0.0
    assert answer.after.nodes == answer.before.nodes + 3 - 1
    text = to_table(answer)
    assert "drain node-0, of 1 pod" in text
    assert "default/train" in text
    data = to_json(answer)
    assert data["after"]["startAtOnce"] >= 1
    train = next(job for job in data["jobs"] if job["name"] == "default/train")
    assert (train["before"]["startsInSeconds"], train["after"]["startsInSeconds"]) == (None, 0.0)


def test_another_policy_evicts_and_says_for_whom() -> None:
    scene = cluster().queue("default").node("n", cpu="4").priority_class("high", 9).priority_class("low", 1)
    scene = scene.pod_group("small", min_member=1, priority_class="low", phase="Running")
    for number in range(2):
        small = pod(f"small-{number}", cpu="2", group="small", priority_class="low", priority=1)
        scene = scene.add(small.on("n"))
    scene = scene.pod_group("big", priority_class="high", phase="Inqueue")
    scene = scene.add(pod("big", cpu="2", group="big", priority_class="high", priority=9))
    before = copy_of(scene, NEVER_PREEMPTING)
    after = copy_of(scene, PREEMPTING)
    answer = whatif.what_if(before, after, [], expected_seconds(), horizon_seconds=DAY)
    assert answer.before.evictions == []
    (eviction,) = answer.after.evictions
    assert eviction[0].startswith("default/small-")
    assert eviction[1] == "default/big"
    assert answer.after.jobs["default/big"].starts_at == 0.0
    assert answer.before.jobs["default/big"].starts_at is None


BAD = {
    "--drain no": lambda copy: whatif.drained(copy, "no"),
    "--queue x": lambda copy: whatif.queue_set(copy, "x"),
    "--queue defaul.weight=1": lambda copy: whatif.queue_set(copy, "defaul.weight=1"),
    "--queue default.weight=0": lambda copy: whatif.queue_set(copy, "default.weight=0"),
    "--queue default.weight=many": lambda copy: whatif.queue_set(copy, "default.weight=many"),
    "--queue default.capability=4": lambda copy: whatif.queue_set(copy, "default.capability=4"),
    "--queue default.capability.cpu=-1": lambda copy: whatif.queue_set(copy, "default.capability.cpu=-1"),
    "--queue default.colour=red": lambda copy: whatif.queue_set(copy, "default.colour=red"),
    "--queue default.state=Ajar": lambda copy: whatif.queue_set(copy, "default.state=Ajar"),
    "--queue default.reclaimable=yes": lambda copy: whatif.queue_set(copy, "default.reclaimable=yes"),
    "--queue default.weight.cpu=1": lambda copy: whatif.queue_set(copy, "default.weight.cpu=1"),
    "nodes": lambda copy: whatif.nodes_added("many"),
}


@pytest.mark.parametrize("ask", BAD.values(), ids=BAD)
def test_bad_changes_are_named(ask: Any) -> None:
    with pytest.raises(InvalidInput):
        ask(copy_of(full()))


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("default.weight=5", "weight", 5),
        ("default.reclaimable=false", "reclaimable", False),
        ("default.capability.cpu=64", "capability", {"cpu": "64"}),
        ("default.deserved.nvidia.com/gpu=8", "deserved", {"nvidia.com/gpu": "8"}),
        ("default.parent=root", "parent", "root"),
    ],
)
def test_queue_settings_reach_the_queue(text: str, field: str, value: object) -> None:
    copy = copy_of(full())
    changed = whatif.applied(copy, [whatif.queue_set(copy, text)])
    (queue,) = [one.view for one in changed.objects if str(one.view.key) == "default" and hasattr(one.view, "spec")]
    assert getattr(queue.spec, field) == value


@pytest.mark.parametrize(("pods", "nodes"), [(1, 1), (5, 5), (8, 8), (13, 13)])
def test_the_fewest_nodes_are_found_and_one_less_fails(pods: int, nodes: int) -> None:
    found = whatif.fewest_nodes(copy_of(full(None).gang("train", pods, cpu="4")), SHAPE, expected_seconds())
    assert found.nodes == nodes
    assert found.tried[nodes] == 0 < found.tried[nodes - 1]
    assert found.is_monotone


def test_no_number_of_nodes_helps_a_job_that_fits_no_node() -> None:
    found = whatif.fewest_nodes(copy_of(full(None).gang("wide", 2, cpu="5")), SHAPE, expected_seconds())
    assert found.nodes is None
    assert list(found.waiting) == ["default/wide"]


def test_nothing_waits_needs_no_node() -> None:
    assert whatif.fewest_nodes(copy_of(full(None)), SHAPE, expected_seconds()).nodes == 0


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["1", "2", "4"])), min_size=1, max_size=5))
def test_more_nodes_never_start_less(jobs: list[tuple[int, str]]) -> None:
    """On nodes of one shape and jobs without rules; the answer holds what it says of its neighbour."""
    scene = full(None)
    for number, (size, cpu) in enumerate(jobs):
        scene = scene.gang(f"job-{number}", size, cpu=cpu)
    copy = copy_of(scene)
    found = whatif.fewest_nodes(copy, SHAPE, expected_seconds())
    assert found.nodes is not None
    assert found.is_monotone
    for number in (found.nodes, found.nodes + 1, found.nodes + 5):
        more = whatif.nodes_of(parse_nodes(f"{number}x4cpu,16Gi")) if number else []
        assert run_forward(copy.with_edits((), more), expected_seconds(), horizon_seconds=0.0).waiting == []


def test_groups_without_pods_get_the_least_they_need() -> None:
    scene = full(None).pod_group("late", min_member=2, min_resources={"cpu": "8", "memory": "2Gi"}, phase="Pending")
    state, notes = with_late_pods(state_of(scene), START)
    made = [obj for _, obj in state.objects if obj["kind"] == "Pod" and obj["metadata"]["name"].startswith("late-")]
    assert [obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] for obj in made] == ["4", "4"]
    assert "1 pod group without pods" in notes[0]
    found = whatif.fewest_nodes(Copy(decode_all(state.objects), default_config(), 0, START), SHAPE, expected_seconds())
    assert found.nodes == 2


def test_jobs_are_called_as_their_owners() -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "train-123",
            "namespace": "team",
            "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
        },
    }
    assert job_names([("x", group)]) == {"team/train-123": "team/train"}
