"""Several policies over one trace: each is what it is alone, whatever runs beside it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from strato.cli.main import cli
from strato.errors import InvalidInput, UsageError
from strato.sim.experiments.results import Results
from strato.sim.run import SimulationOptions, simulate

GANGS = "actions: enqueue, allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
SINGLES = "actions: enqueue, allocate\ntiers: [{plugins: [{name: predicates}]}]\n"
ON = ["--nodes", "1x4cpu,16Gi", "--cores", "1"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    lines = ("0,100,2,1,a", "1,100,4,1,b", "2,100,1,1,a", "3,50,3,1,b")
    path.write_text("submit,run_time,replicas,cpu,queue\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def policies(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, text in (("singles", SINGLES), ("gangs", GANGS)):
        found[name] = tmp_path / f"{name}.yaml"
        found[name].write_text(text)
    return found


def sim_run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["sim", "run", *map(str, arguments)])


def test_each_policy_is_what_it_is_alone(trace: Path, policies: dict[str, Path]) -> None:
    given = [option for name, path in policies.items() for option in ("--policy", f"{name}={path}")]
    done = sim_run(trace, *ON, "--seed", 3, *given, "-o", "json")
    assert done.exit_code == 0, done.output
    found = msgspec.json.decode(done.stdout, type=Results)
    assert [run.policy for run in found.runs] == ["singles", "gangs"]
    for run in found.runs:
        alone = simulate(SimulationOptions(trace=trace, nodes="1x4cpu,16Gi", seed=3, config=policies[run.policy]))
        assert run.report == alone


def test_the_table_sets_policies_and_queues_side_by_side(trace: Path, policies: dict[str, Path]) -> None:
    both = ["--policy", policies["singles"], "--policy", f"all-or-none={policies['gangs']}"]
    lines = sim_run(trace, *ON, "--fidelity", "decisions", *both).stdout.splitlines()
    assert lines[0].split()[:2] == ["POLICY", "DONE"]
    assert [line.split()[:2] for line in lines[1:3]] == [["singles", "4/4"], ["all-or-none", "4/4"]]
    assert lines[4].split() == ["MEAN", "WAIT", "IN", "a", "b"]
    assert [line.split()[0] for line in lines[5:7]] == ["singles", "all-or-none"]
    assert lines[8].startswith("JOB BY JOB")
    assert lines[9].startswith("all-or-none against singles")


def test_all_problems_of_all_inputs_come_at_once(trace: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("actions: enqeue\n")
    none = tmp_path / "none.yaml"
    none.write_text("tiers: [{plugins: [{name: gagn}]}]\n")
    trace.write_text("submit,run_time,replicas,cpu\nx,1,1,1\n")
    done = sim_run(trace, "--nodes", "1x4cp", "--policy", wrong, "--policy", none)
    assert isinstance(done.exception, InvalidInput)
    text = str(done.exception)
    assert all(part in text for part in ("'enqeue'", "'gagn'", "wrong.yaml", "none.yaml", "t.csv: line 2: submit"))
    assert text.count("1x4cp:") == 1, "what they share is reported once"


def test_one_policy_and_one_seed_give_one_report(trace: Path) -> None:
    done = sim_run(trace, *ON, "--fidelity", "decisions", "-o", "json")
    assert done.exit_code == 0, done.output
    assert msgspec.json.decode(done.stdout)["finished"] == 4


def test_a_trace_comes_from_standard_input(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys
    from types import SimpleNamespace

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(trace.read_bytes()), isatty=lambda: False))
    from strato.cli.inputs import STDIN, seekable

    with seekable(STDIN) as path:
        assert path.read_bytes() == trace.read_bytes()


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (["--policy", "absent.yaml"], "there is no file absent.yaml"),
        (["--policy", "=x"], "expected NAME=FILE or FILE"),
        (["--policy", "name="], "expected NAME=FILE or FILE"),
        (["--config", "{0}", "--policy", "{0}"], "by a --policy of its own"),
        (["--policy", "{0}", "--policy", "{0}"], "singles: two policies have this name"),
        (["--seed", "1", "--seeds", "2"], "--seed and --seeds"),
        (["--resume"], "--resume needs --out"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(
    trace: Path, policies: dict[str, Path], given: list[str], part: str
) -> None:
    done = sim_run(trace, *[text.format(policies["singles"]) for text in given])
    assert isinstance(done.exception, UsageError)
    assert part in str(done.exception)
