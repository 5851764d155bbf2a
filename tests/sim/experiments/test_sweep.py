"""Every point of a grid is the experiment with its parameters set, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from strato.cli.main import cli
from strato.errors import InvalidInput
from strato.sim.experiments.sweep import Parameter, parse_parameter, sweep

POLICY = "actions: enqueue, allocate\ntiers: [{plugins: [{name: predicates}, {name: binpack}]}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = "\n".join(f"{10 * i},{100 + i},{1 + i % 3},1,a" for i in range(12))
    (tmp_path / "t.csv").write_text(f"submit,run_time,replicas,cpu,queue\n{lines}\n")
    (tmp_path / "pack.yaml").write_text(POLICY)
    return tmp_path


def document(**more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sim.strato.dev/v1alpha1",
        "kind": "Experiment",
        "trace": "t.csv",
        "nodes": "2x4cpu,16Gi",
        "queues": {"a": {"weight": 1}},
        "policies": {"pack": "pack.yaml", "built-in": None},
        "fidelity": "decisions",
        **more,
    }


def points(folder: Path, *over: str, **more: Any) -> Any:
    return sweep(document(**more), "e.yaml", folder, [parse_parameter(text) for text in over])


@pytest.mark.parametrize(
    ("over", "nodes"),
    [
        ("nodes.count=1,3", ["1x4cpu,16Gi", "3x4cpu,16Gi"]),
        ("nodes.cpu=8", ["2x16Gi,8cpu"]),
        ("nodes.memory=64Gi", ["2x4cpu,64Gi"]),
        ("nodes.gpu=2", ["2x4cpu,16Gi,2gpu"]),
    ],
)
def test_nodes_are_varied(folder: Path, over: str, nodes: list[str]) -> None:
    assert [variant.nodes for variant in points(folder, over).variants] == nodes


def test_a_grid_is_the_product_of_its_parameters(folder: Path) -> None:
    found = points(folder, "nodes.count=1,2", "queues.a.weight=1,5,9")
    assert len(list(found.runs())) == 12
    assert [variant.values for variant in found.variants[:2]] == [
        {"nodes.count": "1", "queues.a.weight": "1"},
        {"nodes.count": "1", "queues.a.weight": "5"},
    ]
    assert found.variants[1].name == "count 1, weight 5"
    assert found.variants[2].queues[0]["spec"] == {"weight": 9}
    assert len({run.digest("x") for run in found.runs()}) == 12


def test_arguments_of_plugins_are_set_where_a_policy_has_them(folder: Path) -> None:
    found = points(folder, "policy.arguments.binpack.binpack.weight=1,7")
    texts = [[policy.text for policy in variant.policies] for variant in found.variants]
    assert texts[0][1] is None
    for text, weight in ((texts[0][0], 1), (texts[1][0], 7)):
        assert yaml.safe_load(text)["tiers"][0]["plugins"][1]["arguments"] == {"binpack.weight": weight}


def test_workload_models_take_their_parameters(folder: Path) -> None:
    found = points(folder, "workload.load=0.5,0.9", trace="lublin:jobs=50,nodes=16,load=0.7")
    assert [variant.trace.sources[0] for variant in found.variants] == [
        "lublin:jobs=50,nodes=16,load=0.5",
        "lublin:jobs=50,nodes=16,load=0.9",
    ]


@pytest.mark.parametrize(
    ("over", "part"),
    [
        ("nodes.count", "write NAME=VALUE"),
        ("node.count=1", "no such parameter; did you mean 'nodes'?"),
        ("nodes.count=1,1", "a value is given twice"),
        ("nodes.count=x", "nodes.count=x: nodes: "),
        ("nodes.cores=1", "no such item of nodes"),
        ("workload.load=1", "needs a workload model"),
        ("queues.b.weight=1", "no such queue"),
        ("queues.a.weight=much", "queues.a.weight=much: queues"),
        ("policy.arguments.gang.x=1", "no policy has the plugin 'gang'"),
        ("policy.gang=1", "write policy.arguments.PLUGIN.KEY"),
        ("policy.arguments.binpack.binpack.wight=1", "wight"),
        ("limit=-1", "limit=-1: limit: must be a whole number"),
    ],
)
def test_what_is_wrong_is_named_with_its_point(folder: Path, over: str, part: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        points(folder, over)
    assert part in str(refused.value)


def test_a_grid_of_too_many_runs_is_refused(folder: Path) -> None:
    values = tuple(map(str, range(1, 101)))
    parameters = [Parameter(name, values) for name in ("nodes.count", "queues.a.weight")]
    with pytest.raises(InvalidInput, match="20000 runs are more than 10000"):
        sweep(document(), "e.yaml", folder, parameters)


def test_the_command_prints_a_row_for_each_point_and_resumes(folder: Path) -> None:
    (folder / "e.yaml").write_text(yaml.safe_dump(document(policies={"pack": "pack.yaml"}, name="nodes")))
    arguments = ["sim", "sweep", str(folder / "e.yaml"), "--over", "nodes.count=2,4", "--cores", "1"]
    out = ["--out", str(folder / "out"), "--resume", "--plots", str(folder / "plots")]
    first = CliRunner().invoke(cli, [*arguments, *out])
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert lines[0].split()[:3] == ["NODES.COUNT", "POLICY", "WAIT"]
    assert [line.split()[:2] for line in lines[1:]] == [["2", "pack"], ["4", "pack"]]
    files = {one.name for one in (folder / "out").iterdir()}
    assert files == {"runs", "results.json", "report.html", "runs.parquet", "jobs.parquet", "intervals.parquet"}
    assert (folder / "plots" / "sweep.svg").read_text().startswith("<?xml")
    before = {one.name: one.stat().st_mtime_ns for one in (folder / "out" / "runs").iterdir()}
    page = (folder / "out" / "report.html").read_bytes()
    again = CliRunner().invoke(cli, [*arguments, *out])
    assert again.stdout == first.stdout
    assert {one.name: one.stat().st_mtime_ns for one in (folder / "out" / "runs").iterdir()} == before
    assert (folder / "out" / "report.html").read_bytes() == page


def test_a_parameter_given_twice_is_refused(folder: Path) -> None:
    (folder / "e.yaml").write_text(yaml.safe_dump(document()))
    over = ["--over", "nodes.count=2", "--over", "nodes.count=4", "--over", "bad"]
    done = CliRunner().invoke(cli, ["sim", "sweep", str(folder / "e.yaml"), *over])
    assert isinstance(done.exception, InvalidInput)
    assert "is given twice" in str(done.exception)
    assert "--over bad" in str(done.exception)
