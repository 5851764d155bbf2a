"""``strato flow``: solve files, replay loads and traces, one clear line for every bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strato.cli.main import cli
from strato.errors import StratoError
from strato.testing import manifests

DIAMOND = "c two ways\np min 4 4\nn 1 2\nn 4 -2\na 1 2 0 1 1\na 1 3 0 2 5\na 2 4 0 2 1\na 3 4 0 2 1\n"


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["flow", *map(str, args)])


@pytest.mark.parametrize("kernel", ["race", "paths", "scaling"])
def test_a_file_is_solved_and_its_solution_printed(tmp_path: Path, kernel: str) -> None:
    path = tmp_path / "diamond.min"
    path.write_text(DIAMOND)
    done = run("solve", path, "--kernel", kernel, "--check")
    assert done.exit_code == 0
    assert "s 8\n" in done.output
    assert {line for line in done.output.splitlines() if line.startswith("f ")} == {
        "f 1 2 1",
        "f 1 3 1",
        "f 2 4 1",
        "f 3 4 1",
    }


BAD = [
    pytest.param(["solve", "none.min"], "none.min", id="a file that is not there"),
    pytest.param(["serve", "--listen", "here"], "write HOST:PORT", id="an address without a port"),
    pytest.param(["serve", "--model", "nonsense"], "'nonsense' is unknown", id="an unknown cost model"),
    pytest.param(["simulate", "--model", "x.py:M"], "x.py", id="a cost model's file that is not there"),
    pytest.param(["simulate", "none"], "task_runtimes.csv: cannot be read", id="a trace that is not there"),
    pytest.param(["simulate", "--use", "0"], "use: 0.0 is no share", id="a load without tasks to run"),
    pytest.param(["simulate", "--speed-up", "0"], "--speed-up 0", id="time that stands still"),
]


@pytest.mark.parametrize(("args", "message"), BAD)
def test_bad_input_is_one_error(args: list[str], message: str) -> None:
    done = run(*args)
    assert isinstance(done.exception, StratoError)
    assert message in str(done.exception)


def test_flow_moves_a_fraction_of_the_data_the_greedy_schedulers_move() -> None:
    args = ["--machines", 40, "--tasks", 150, "--slots", 4, "--against", "random", "--against", "spread"]
    done = run("simulate", *args, "--instant", "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["quincy"]["completed"] == found["random"]["completed"] == 150
    assert found["quincy"]["transferred_gb"] < 0.2 * found["random"]["transferred_gb"]
    assert found["quincy"]["transferred_gb"] < 0.2 * found["spread"]["transferred_gb"]
    assert run("simulate", *args, "--instant", "-o", "json").output == done.output


def test_a_trace_with_bad_lines_says_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "task_runtimes.csv").write_text("j,1,soon\nj,2,5\n")
    (tmp_path / "machine_events.csv").write_text("0,m,0,x,0.5\n0,m,0,x,much,0.5\n0,m,0,x,0.5,1e99\n")
    (tmp_path / "task_events.csv").write_text("now,,j,2,,0,u,0,1,0.1,0.1\n")
    message = str(run("simulate", tmp_path).exception)
    for where in (
        "task_runtimes.csv: line 1",
        "line 1: 5 columns",
        "line 2",
        "'1e99' is no share",
        "task_events.csv: line 1",
    ):
        assert where in message


def test_explain_shows_the_arcs_and_prices_of_a_flow_placement(tmp_path: Path) -> None:
    nodes = [manifests.node("big", cpu="4", labels={"disk": "ssd"}), manifests.node("small", cpu="2")]
    pods = [
        manifests.pod("easy", scheduler="poseidon", cpu="2"),
        manifests.pod("picky", scheduler="poseidon", cpu="4", node_selector={"disk": "ssd"}),
    ]
    path = tmp_path / "state.yaml"
    path.write_text("\n---\n".join(json.dumps(obj) for obj in [*nodes, *pods]))
    found = CliRunner().invoke(cli, ["explain", "pod/easy", "-f", str(path)], catch_exceptions=False).output
    assert "binds it to small" in found
    assert "flow: place " in found
    assert "scarcity" in found
