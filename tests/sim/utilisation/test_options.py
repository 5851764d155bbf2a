"""The file of an experiment: what it may say, and what is said of mistakes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from strato.errors import InvalidInput, UsageError
from strato.sim.utilisation.options import VariantOptions, parse_experiment, read_experiment

SMALL = """
hours: 2
warmUpHours: 0
nodes: 2x8cpu,32Gi,overcommit=2
services:
- {name: web, replicas: 2, cpu: "2", cpuLimit: "3", demand: daily low=1 high=2 peak=20h}
trainings:
  perDay: 24
  kinds:
  - name: ctr
    roles:
      ps: {cpu: "1", demand: "1", setsPace: true}
      worker: {replicas: 2, cpu: "3", demand: phases 60s=1 10m=3}
variants:
  none: {}
  all: {gang: true, overcommit: true, suppression: true}
policy:
  handlers: {suppress: {overload: 0.95}}
"""


def complaints(text: str, folder: Path = Path()) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        parse_experiment(text, "e.yaml", folder)
    return [f"{one.where}: {one.message}" for one in caught.value.problems]


def test_an_experiment_is_read() -> None:
    read = parse_experiment(SMALL, "e.yaml", Path())
    assert (read.times.hours, read.times.warm_up_hours) == (2.0, 0.0)
    assert [(shape.count, shape.cpu_overcommit_factor) for shape in read.nodes] == [(2, 2.0)]
    assert [(one.name, one.replicas, one.priority) for one in read.services] == [("web", 2, 1000)]
    (kind,) = read.kinds
    assert (kind.name, kind.pods, list(kind.roles)) == ("ctr", 3, ["ps", "worker"])
    assert kind.roles["ps"].sets_pace
    assert read.variants["all"] == VariantOptions(gang=True, overcommit=True, suppression=True)


def test_only_variants_with_an_agents_handler_have_agents() -> None:
    read = parse_experiment(SMALL, "e.yaml", Path())
    assert read.policy_of(read.variants["none"]) is None
    policy = read.policy_of(read.variants["all"])
    assert policy is not None
    assert list(policy.handlers) == ["suppress"]
    assert policy.handlers["suppress"].options.overload == 0.95
    both = read.policy_of(VariantOptions(suppression=True, burst=True))
    assert both is not None
    assert list(both.handlers) == ["suppress", "burst"]


def test_all_problems_are_said_at_once_with_their_places() -> None:
    text = """
hours: -1
warmupHours: 3
nodes: 0x8cpu
services:
- {name: Web!, replicas: 0, cpu: much, demand: sometimes}
- {name: web}
trainings:
  perDay: -5
  kinds:
  - name: ctr
    medianMinutes: 0
    roles:
      wroker: {demand: "1"}
      chief: {replicas: 2, demand: "1"}
      ps: {demand: trace web}
variants:
  all: {gang: perhaps}
policy: {handlers: {suppress: {overload: 2}}}
"""
    found = "\n".join(complaints(text))
    for wanted in (
        "warmupHours: no such key; did you mean 'warmUpHours'?",
        "hours: -1 must be at least 0.1 and at most 744",
        "nodes: 0x8cpu: is no shape",
        "services[0].replicas: 0 must be at least 1 and at most 1000",
        "services[0].cpu: 'much' is no quantity",
        "services[0].name: 'Web!' is no name",
        "services[0].demand: 'sometimes' is no number of cores",
        "services[1].demand: is missing",
        "trainings.perDay: -5 must be at least 0",
        "trainings.kinds[0].medianMinutes: 0 must be at least 0.1",
        "trainings.kinds[0].roles.wroker: no such role; did you mean 'worker'?",
        "trainings.kinds[0].roles.chief.replicas: must be 1",
        "trainings.kinds[0].roles.ps.demand: no trace is called 'web'",
        "variants.all.gang: must be true or false, not 'perhaps'",
        "policy.handlers.suppress.overload: 2 must be above 0 and at most 1",
    ):
        assert wanted in found


WRONG = [
    ("[]", ": must be a mapping, not a list"),
    ("nodes: [", "did not find expected node content"),
    ("nodes: 1x1cpu\nservices: 3", "services: must be a list, not a number"),
    ("nodes: 1x1cpu\ntrainings: {kinds: 3}", "trainings.kinds: must be a list, not a number"),
    ("nodes: 3\nservices: []", "nodes: must be text such as"),
    ("nodes: 1x1cpu", "there is nothing to run"),
    (SMALL.replace("name: ctr", "name: ctr\n    share: 0"), "trainings.kinds: all shares are 0"),
    (SMALL + "traces: {web: {}}", "traces.web.file: is missing; name a CSV file"),
    (SMALL + "traces: {web: {file: none.csv}}", "none.csv cannot be read: No such file or directory"),
    (SMALL.replace("policy:\n  handlers: {suppress: {overload: 0.95}}", "policy: {handlers: 3}"), "must be a mapping"),
    (SMALL.replace("name: web,", "name: web, cpus: 3,"), "services[0].cpus: no such key; did you mean 'cpu'?"),
    (SMALL.replace("variants:\n  none: {}", "variants: {}\nx:\n  none: {}"), "variants: needs one at least"),
]


@pytest.mark.parametrize(("text", "complaint"), WRONG)
def test_mistakes_are_said(text: str, complaint: str) -> None:
    assert any(complaint in one for one in complaints(text)), complaints(text)


def test_a_trace_of_the_experiments_folder_is_read(tmp_path: Path) -> None:
    lines = ["id,timestamp,duration,cpu_count,cpu_usage", "7,1000,300,1,2926.0", "7,1300,300,1,5852.0", "8,0,300,1,0"]
    (tmp_path / "use.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (tmp_path / "e.yaml").write_text(
        SMALL.replace("demand: daily low=1 high=2 peak=20h", "demand: trace use series=7")
        + "traces: {use: {file: use.csv.gz, perCore: 2926}}\n"
    )
    samples = read_experiment(tmp_path / "e.yaml").traces["use"]["7"]
    assert (samples.times, samples.cores, samples.length) == ((0.0, 300.0), (1.0, 2.0), 600.0)


TRACES = [
    ("a,b\n1,2", "line 1: has no column seconds or timestamp and none cores or cpu_usage"),
    ("seconds,cores", ": it has no samples"),
    ("seconds,cores\n0,1\n5,-1", "line 3: '-1' is no use of CPU"),
    ("seconds,cores\n0,1\nx,1", "line 3: 'x' is no time in seconds"),
    ("seconds,cores\n5,1\n5,1", "line 3: 5 s is not 1 s or more after the sample before, 5 s"),
    ("seconds,cores\n0", "line 2: has 1 fields, the header 2"),
]


@pytest.mark.parametrize(("text", "complaint"), TRACES)
def test_a_wrong_trace_is_said_by_line_and_its_demands_are_not(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "use.csv").write_text(text)
    document = SMALL.replace("demand: daily low=1 high=2 peak=20h", "demand: trace use")
    (found,) = complaints(document + "traces: {use: {file: use.csv}}\n", tmp_path)
    assert complaint in found
    assert found.startswith("traces.use.file: ")


def test_a_missing_and_an_endless_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: No such file or directory"):
        read_experiment(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_text("#" * 300_000)
    with pytest.raises(UsageError, match="is longer than"):
        read_experiment(tmp_path / "big.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_experiment(tmp_path / "binary.yaml")
