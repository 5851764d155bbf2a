"""FGD's published runs: the first pods of some of them again, and the arithmetic around them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from strato.errors import UsageError
from strato.sim.papers import fgd
from strato.sim.papers.gorandom import GoRandom
from strato.sim.traces import TraceJob
from tests.sim.shareddata import data_folder

SHARE, WHOLE = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"


def job(name: str, **requests: str) -> TraceJob:
    return TraceJob(name=name, submit_seconds=0, run_seconds=1, requests={"cpu": "1", **requests})


PODS = [
    pytest.param(job("none"), 0, 0, id="without GPUs"),
    pytest.param(job("part", **{SHARE: "460"}), 460, 460, id="a share"),
    pytest.param(job("whole", **{WHOLE: "8"}), 1000, 8000, id="whole ones"),
]


@pytest.mark.parametrize(("pod", "share", "total"), PODS)
def test_what_pods_ask_for(pod: TraceJob, share: int, total: int) -> None:
    assert (fgd.share_of(pod), fgd.gpu_milli_of(pod)) == (share, total)
    typical = fgd.typical_of(pod)
    assert typical.cards * typical.share == total


def test_curves_are_means_of_each_percent() -> None:
    curve = fgd.curve_of([(500, True), (500, True), (10, False), (990, True)], 100_000)
    assert curve[0] == 0.5, "0.5 % arrived is rounded to the even 0"
    assert curve[1] == 1.0, "what is dropped has arrived too"
    assert curve[2] == 1.99
    assert math.isnan(curve[3])


@pytest.mark.parametrize("gpus", [1, 3, 100])
def test_pods_arrive_until_they_ask_for_enough(gpus: int) -> None:
    pods = [job(f"p{i:03}", **{WHOLE: "1"}) for i in range(60)]
    arriving = fgd.drawn(pods, gpus * 1000, GoRandom(42))
    assert len(arriving) == int(1.3 * gpus)
    assert len({pod.name for pod in arriving}) == min(60, int(1.3 * gpus)), "the list comes before anything comes twice"


def test_a_published_run_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("workload,sc_policy,seed,0\nopenb_pod_list_default,06-FGD,42,x\n")
    with pytest.raises(UsageError, match=r"line 2 is no published run"):
        fgd.read_published(file)


@pytest.mark.parametrize(("workload", "policy"), [("default", "06-FGD"), ("gpuspec33", "05-BestFit")])
def test_the_first_pods_of_a_published_run_again(workload: str, policy: str) -> None:
    """The scheduler's own cycle allocates what the paper's did, to the last digit, while 1,000 pods arrive."""
    data = data_folder()
    path = data / fgd.FOLDER / "fgd-reference" / "analysis_allo_discrete.csv.gz"
    published = fgd.read_published(path)[workload, policy, 43]
    ours = fgd.allocated(fgd.FgdRun(data, workload, policy, 43), 1000)
    arrived = sum(not math.isnan(value) for value in ours) - 1  # the last percent is not complete
    assert arrived >= 10
    assert ours[:arrived] == published[:arrived]


def test_published_runs_are_all_there() -> None:
    path = data_folder() / fgd.FOLDER / "fgd-reference" / "analysis_allo_discrete.csv.gz"
    published = fgd.read_published(path)
    assert len(published) == 17 * 6 * 10
    assert {policy for _, policy, _ in published} == set(fgd.POLICIES)


def test_a_table_compares_means_and_counts_equal_runs() -> None:
    runs = [fgd.FgdRun(Path(), "w", "06-FGD", seed) for seed in (1, 2)]
    theirs = {("w", "06-FGD", seed): tuple([90.0] * 131) for seed in (1, 2)}
    found = fgd.compared({runs[0]: tuple([90.0] * 131), runs[1]: tuple([89.0] * 131)}, theirs)
    assert found.cells[0].ours == 10.5
    assert found.cells[0].reference == 10.0
    assert not found.agrees
    assert found.details == {"runs": 2, "equal_runs": 1, "farthest_points": 1.0}
