"""Several policies over one trace: each is what it is alone, whatever runs beside it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from strato.cli.main import cli
from strato.errors import InvalidInput, UsageError
from strato.sim import comparison
from strato.sim.comparison import Comparison, Policy, compare
from strato.sim.run import Progress, SimulationOptions, simulate

GANGS = "actions: enqueue, allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
SINGLES = "actions: enqueue, allocate\ntiers: [{plugins: [{name: predicates}]}]\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    lines = ("0,100,2,1,a", "1,100,4,1,b", "2,100,1,1,a", "3,50,3,1,b")
    path.write_text("submit,run_time,replicas,cpu,queue\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def policies(tmp_path: Path) -> list[Policy]:
    found = []
    for name, text in (("singles", SINGLES), ("gangs", GANGS)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        found.append(Policy(name, path))
    return found


@pytest.mark.parametrize("processes", [1, 2])
def test_each_policy_is_what_it_is_alone(trace: Path, policies: list[Policy], processes: int) -> None:
    options = SimulationOptions(trace=trace, nodes="1x4cpu,16Gi", seed=3)
    told: dict[str, Progress] = {}
    found, is_complete = compare(options, policies, processes=processes, progress=told.__setitem__)
    assert is_complete
    assert list(found.policies) == ["singles", "gangs"]
    for policy in policies:
        alone = simulate(SimulationOptions(trace=trace, nodes="1x4cpu,16Gi", seed=3, config=policy.config))
        assert found.policies[policy.name] == alone
        assert told[policy.name].finished == 4
    assert msgspec.json.decode(found.to_json(), type=Comparison) == found


def test_the_table_sets_policies_and_queues_side_by_side(trace: Path, policies: list[Policy]) -> None:
    found, _ = compare(SimulationOptions(trace=trace, nodes="1x4cpu,16Gi"), policies, processes=1)
    lines = found.to_table().splitlines()
    assert lines[0].split()[:2] == ["POLICY", "DONE"]
    assert [line.split()[:2] for line in lines[1:3]] == [["singles", "4/4"], ["gangs", "4/4"]]
    assert lines[4].split() == ["MEAN", "WAIT", "IN", "a", "b"]
    assert [line.split()[0] for line in lines[5:]] == ["singles", "gangs"]


def test_all_problems_of_all_policies_come_at_once(trace: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("actions: enqeue\n")
    none = tmp_path / "none.yaml"
    none.write_text("tiers: [{plugins: [{name: gagn}]}]\n")
    options = SimulationOptions(trace=trace, nodes="1x4cp")
    with pytest.raises(InvalidInput) as refused:
        compare(options, [Policy("a", wrong), Policy("b", none)], processes=1)
    said = str(refused.value)
    assert all(part in said for part in ("'enqeue'", "'gagn'", "wrong.yaml", "none.yaml"))
    assert said.count("1x4cp:") == 1, "what they share is said once"


def test_two_policies_of_one_name_are_refused(trace: Path, policies: list[Policy]) -> None:
    with pytest.raises(UsageError, match="singles: two policies have this name"):
        compare(SimulationOptions(trace=trace), [policies[0], policies[0]], processes=1)


def test_an_interruption_keeps_what_has_ended(
    trace: Path, policies: list[Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = comparison.as_completed

    def interrupted(futures: object) -> object:
        for number, future in enumerate(original(futures)):  # type: ignore[call-overload]  # futures by policy
            if number == 1:
                raise KeyboardInterrupt
            yield future

    monkeypatch.setattr(comparison, "as_completed", interrupted)
    found, is_complete = compare(SimulationOptions(trace=trace, nodes="1x4cpu,16Gi"), policies, processes=1)
    assert not is_complete
    assert len(found.policies) == 1


def test_the_command_names_policies_by_their_files(trace: Path, policies: list[Policy]) -> None:
    arguments = ["sim", "run", str(trace), "--nodes", "1x4cpu,16Gi", "--processes", "1", "-o", "json"]
    given = ["--policy", str(policies[0].config), "--policy", f"all-or-none={policies[1].config}"]
    done = CliRunner().invoke(cli, [*arguments, *given])
    assert done.exit_code == 0, done.output
    assert list(msgspec.json.decode(done.stdout)["policies"]) == ["singles", "all-or-none"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--policy", "absent.yaml"], "there is no file absent.yaml"),
        (["--policy", "=x"], "expected NAME=FILE or FILE"),
        (["--policy", "name="], "expected NAME=FILE or FILE"),
        (["--config", "{0}", "--policy", "{0}"], "by a --policy of its own"),
    ],
)
def test_wrong_policies_are_refused_in_a_sentence(
    trace: Path, policies: list[Policy], given: list[str], said: str
) -> None:
    arguments = [text.format(policies[0].config) for text in given]
    done = CliRunner().invoke(cli, ["sim", "run", str(trace), *arguments])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)
