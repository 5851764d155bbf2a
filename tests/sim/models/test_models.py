"""Performance models: speeds, starts and losses of jobs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput, Problem
from strato.scheduler.plugins.throughputs import parse_throughputs, read_throughputs
from strato.sim.models import Combined, Neighbour, PodStart, RunningJob
from strato.sim.models.elastic import Checkpoints, Elastic
from strato.sim.models.gpus import CoLocation, GpuSpeed
from strato.sim.models.locality import Locality, parse_profile, read_profiles
from strato.sim.models.reading import MODELS, read_models
from strato.sim.models.startcost import StartCost
from strato.sim.traces import TraceJob
from tests.sim.shareddata import data_folder


def job(name: str = "j", **fields: Any) -> TraceJob:
    return TraceJob(name=name, submit_seconds=0.0, run_seconds=100.0, **fields)


def running(of: TraceJob, *nodes: int, **more: Any) -> RunningJob:
    return RunningJob(of, nodes, **more)


# -- starts ------------------------------------------------------------------------------------------------------------


def test_an_image_is_pulled_where_it_is_not_yet() -> None:
    model = StartCost(pull_seconds=30, pull_seconds_of={"big": 300}, median_seconds=2)
    assert model.start_seconds(PodStart(job(), 0, 0, first_on_node=True)) == 32
    assert model.start_seconds(PodStart(job(), 0, 0, first_on_node=False)) == 2
    assert model.start_seconds(PodStart(job(application="big"), 0, 0, first_on_node=True)) == 302


@given(st.integers(0, 10_000), st.floats(0.01, 2.0), st.integers(0, 50), st.integers(0, 3))
def test_starts_are_drawn_once_and_for_all(seed: int, spread: float, pod: int, attempt: int) -> None:
    model = StartCost(median_seconds=10, spread=spread, most_seconds=60, seed=seed)
    start = PodStart(job(), pod, attempt, first_on_node=False)
    drawn = model.start_seconds(start)
    assert 0 <= drawn <= 60
    assert model.start_seconds(start) == drawn


def test_half_of_the_starts_are_below_the_median() -> None:
    model = StartCost(median_seconds=10, spread=0.5)
    drawn = [model.start_seconds(PodStart(job(), pod, 0, first_on_node=False)) for pod in range(2000)]
    assert 900 < sum(seconds < 10 for seconds in drawn) < 1100


# -- elastic jobs and checkpoints --------------------------------------------------------------------------------------

SPEEDS = [
    (Elastic(), 4, 1.0),
    (Elastic(), 2, 0.5),
    (Elastic(), 0, 0.0),
    (Elastic(serial_ratio=1.0), 1, 1.0),
    (Elastic(serial_ratio=0.2), 2, 1 / (0.2 + 0.8 * 2)),
    (Elastic(speed_of={"a": {1: 10, 4: 25}}), 1, 0.4),
    (Elastic(speed_of={"a": {1: 10, 4: 25}}), 2, 0.6),
    (Elastic(speed_of={"a": {2: 10}}), 1, 0.5),
]


@pytest.mark.parametrize(("model", "members", "rate"), SPEEDS)
def test_fewer_members_are_slower(model: Elastic, members: int, rate: float) -> None:
    assert model.rate(running(job(replicas=4, application="a"), *range(members))) == pytest.approx(rate)


KEPT = [(60, 0, 0), (60, 59, 0), (60, 60, 60), (60, 179.9, 120), (0, 500, 0)]


@pytest.mark.parametrize(("interval", "done", "kept"), KEPT)
def test_an_eviction_leaves_the_last_checkpoint(interval: float, done: float, kept: float) -> None:
    assert Checkpoints(interval_seconds=interval).kept_seconds(job(), done) == kept


def test_saving_takes_time_and_so_does_coming_back() -> None:
    model = Checkpoints(interval_seconds=90, cost_seconds=10, restore_seconds=5)
    assert model.rate(running(job(), 0)) == 0.9
    assert [model.start_seconds(PodStart(job(), 0, n, first_on_node=False)) for n in (0, 1)] == [0, 5]


# -- GPUs --------------------------------------------------------------------------------------------------------------

TABLE = {
    "v100": {"('a', 1)": {"null": 10, "('b', 1)": [4, 8], "('c', 1)": 0}, "('b', 1)": {"null": 20}},
    "k80": {"('a', 1)": {"null": 2}, "('b', 1)": {"null": 0}},
}
LABEL = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("application", "model", "rate"),
    [("a", "K80", 0.2), ("a", "V100", 1), ("b", "K80", 0), ("z", "K80", 1), ("a", "T4", 1)],
)
def test_other_gpus_have_other_speeds(application: str, model: str, rate: float) -> None:
    speed = GpuSpeed(throughputs=parse_throughputs(TABLE, "t"), recorded_on="v100", label=LABEL)
    assert speed.rate(running(job(application=application), 3, labels={3: {LABEL: model}})) == rate


@pytest.mark.parametrize(("other", "rate"), [("b", 0.4), ("c", 0.7), ("z", 0.7), ("", 1.0)])
def test_neighbours_slow_one_another_down(other: str, rate: float) -> None:
    model = CoLocation(throughputs=parse_throughputs(TABLE, "t"), model="v100", unknown_rate=0.7)
    beside = (Neighbour(job(application=other), 1),) if other else ()
    assert model.rate(running(job(application="a"), 0, neighbours=beside)) == rate


WRONG_TABLES = [
    ([], "no mapping of models"),
    ({"v100": []}, "v100: is no mapping of kinds"),
    ({"v100": {"a": {}}}, "v100: a: is no kind such as"),
    ({"v100": {"('a', 1)": {"null": -1}}}, "null: -1 is neither"),
    ({"v100": {"('a', 1)": {"('b', 1)": [1]}}}, r"\[1\] is neither"),
]


@pytest.mark.parametrize(("table", "message"), WRONG_TABLES)
def test_wrong_tables_are_named(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_throughputs(table, "t")


def test_many_problems_are_cut_short() -> None:
    with pytest.raises(ValueError, match="and 30 more problems"):
        parse_throughputs({"v100": {f"x{i}": {} for i in range(50)}}, "t")


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08", b"{", b"\xff\xfe", b"[" * 100_000])
def test_hostile_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "table.json.gz"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"table\.json\.gz"):
        read_throughputs(file)


# -- locality ----------------------------------------------------------------------------------------------------------

PROFILE = """placement,local_bsz,step_time,sync_time
4,10,1.0,0
22,10,1.5,0
1111,10,2.0,0
4,20,1.0,0
1111,20,8.0,0
11,10,3.0,0
2,10,2.0,0
"""
SPREADS = [((5, 5, 5, 5), 1.0), ((1, 2, 3, 4), 1 / 4), ((1, 1, 2, 2), 1 / 1.5), ((1, 2), 1 / 1.5), ((1, 2, 3), 1 / 1.5)]


@pytest.mark.parametrize(("nodes", "rate"), SPREADS)
def test_spread_gangs_are_slower(nodes: tuple[int, ...], rate: float) -> None:
    problems: list[Problem] = []
    model = Locality(profiles={"a": parse_profile(PROFILE, "p", problems)})
    assert not problems
    found = model.rate(running(job(replicas=len(nodes), application="a"), *nodes))
    if nodes == (1, 2, 3):  # the nearest measured number of nodes
        assert found in (pytest.approx(1 / 1.5), pytest.approx(1 / 4))
    else:
        assert found == pytest.approx(rate)


def test_what_was_not_measured_is_not_slowed() -> None:
    assert Locality(profiles={}).rate(running(job(application="a"), 1, 2)) == 1.0


WRONG_PROFILES = [
    ("placement\n1\n", "local_bsz"),
    ("placement,local_bsz,step_time\n10,1,2\n", "line 2: placement"),
    ("placement,local_bsz,step_time\n1,1,-2\n", "line 2: step_time"),
    ("placement,local_bsz,step_time\n²,1,2\n", "line 2: placement"),
]


@pytest.mark.parametrize(("text", "where"), WRONG_PROFILES)
def test_wrong_profiles_are_named(text: str, where: str) -> None:
    problems: list[Problem] = []
    parse_profile(text, "p", problems)
    assert where in problems[0].where


def test_measured_profiles_say_that_spreading_costs() -> None:
    profiles = read_profiles(data_folder() / "pollux-profiles")
    assert set(profiles) == {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}
    four = Locality(profiles=profiles)
    rate = four.rate(running(job(replicas=4, application="bert"), 1, 2, 3, 4))
    assert 0.2 < rate < 1.0, "four nodes with one GPU each exchange gradients over the network"


# -- switching on ------------------------------------------------------------------------------------------------------


def test_models_combine() -> None:
    model = Combined([Elastic(), Checkpoints(interval_seconds=60, cost_seconds=60), StartCost(median_seconds=3)])
    assert model.rate(running(job(replicas=2), 0)) == 0.25
    assert model.kept_seconds(job(), 100) == 60
    assert model.start_seconds(PodStart(job(), 0, 0, first_on_node=True)) == 3
    assert not model.sees_neighbours


def test_an_experiment_switches_models_on() -> None:
    written = {
        "startCost": {"pullSeconds": "1m", "medianSeconds": 5, "spread": 0.3, "pullSecondsOf": {"x": "2m"}},
        "elastic": {"serialRatio": 0.1, "speedOf": {"bert": {1: 1.0, 8: 6.5}}},
        "checkpoints": {"intervalSeconds": "10m", "costSeconds": 20},
    }
    model = read_models(written, Path())
    assert model is not None
    assert model.kept_seconds(job(), 1300) == 1200
    assert read_models({}, Path()) is None


def test_published_files_are_read() -> None:
    folder = data_folder()
    written = {
        "locality": {"profiles": "pollux-profiles", "default": "bert"},
        "gpuSpeed": {"throughputs": "gavel-throughputs/simulation_throughputs.json.gz"},
        "coLocation": {"throughputs": "gavel-throughputs/simulation_throughputs.json.gz", "unknownRate": 0.5},
    }
    model = read_models(written, folder)
    assert model is not None
    assert model.sees_neighbours
    resnet = job(application="ResNet-50 (batch size 64)")
    assert model.rate(running(resnet, 0, labels={0: {LABEL: "K80"}})) == pytest.approx(0.619 / 4.395, abs=1e-3)


WRONG = [
    ({"startCosts": {}}, "models.startCosts", "did you mean 'startCost'"),
    ({"startCost": 3}, "models.startCost", "is no mapping"),
    ({"startCost": {"medianSeconds": -1}}, "models.startCost.medianSeconds", "is no time"),
    ({"startCost": {"spread": 9}}, "models.startCost.spread", "no number from 0 to 5"),
    ({"startCost": {"pull": 1}}, "models.startCost.pull", "no such field; did you mean 'pullSeconds'"),
    ({"elastic": {"speedOf": {"a": {0: 1}}}}, "models.elastic.speedOf.a", "numbers of members to speeds"),
    ({"elastic": {"speedOf": {"a": 7}}}, "models.elastic.speedOf.a", "numbers of members to speeds"),
    ({"locality": {}}, "models.locality.profiles", "is missing"),
    ({"locality": {"profiles": "no"}}, "models.locality.profiles", "holds no folder with placements.csv"),
    ({"gpuSpeed": {"throughputs": "no.json"}}, "models.gpuSpeed.throughputs", "cannot be read"),
]


@pytest.mark.parametrize(("written", "where", "message"), WRONG)
def test_wrong_models_are_named(written: Any, where: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_models(written, tmp_path)
    assert [(p.where, message in p.message) for p in caught.value.problems] == [(where, True)]


SCALARS = st.none() | st.booleans() | st.floats() | st.text(max_size=5)
FIELDS = st.sampled_from(["spread", "pullSeconds", "speedOf", "profiles", "seed", "x"])
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4))


def places(written: Any) -> set[str]:
    """Return where problems are; empty when the models were read."""
    try:
        model = read_models(written, Path("/nowhere"))
    except InvalidInput as error:
        return {problem.where.partition(".")[0] for problem in error.problems}
    rate = model.rate(running(job(replicas=2), 0)) if model is not None else 1.0
    assert 0 <= rate < math.inf
    return set()


@given(st.dictionaries(st.sampled_from(sorted(MODELS)), ANYTHING))
def test_whatever_is_written_is_read_or_named(written: Any) -> None:
    assert places(written) <= {"models"}
