"""``strato config``: the configuration is checked as a scheduler would, and nothing ends in a traceback."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.cli.main import cli, main
from strato.errors import InvalidInput
from strato.scheduler.config import config_from, default_config, parse_config
from strato.scheduler.framework.plugin import TOGGLES
from strato.scheduler.registry import PLUGINS

GOOD = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: binpack}]}]\n"
BAD = "actions: 'enqueue, alocate'\ntiers: [{plugins: [{name: gagn}]}, {plugin: []}]\nmetric: {}\n"


def check(tmp_path: Path, text: str, *options: str) -> tuple[int, str]:
    file = tmp_path / "scheduler.conf"
    file.write_text(text)
    result = CliRunner().invoke(cli, ["config", "check", str(file), *options], standalone_mode=False)
    return result.return_value, result.output


def test_a_good_file_is_shown_as_it_is_understood(tmp_path: Path) -> None:
    assert check(tmp_path, GOOD) == (0, "valid: enqueue, allocate\n  tier 1: gang, binpack\n")


def test_a_config_map_is_looked_into(tmp_path: Path) -> None:
    wrapped = {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": GOOD, "notes.txt": "not looked at"}}
    assert check(tmp_path, yaml.safe_dump(wrapped))[1].startswith("valid: enqueue, allocate")


def test_every_problem_is_listed_and_the_status_is_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(BAD)
    with pytest.raises(SystemExit) as caught:
        main(["config", "check", str(file)])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    for words in (
        "(4 problems)",
        "metric: no such key; did you mean 'metrics'?",
        "actions: no such action 'alocate'; did you mean 'allocate'?",
        "tiers[0].plugins[0].name: no such plugin 'gagn'; did you mean 'gang'?",
        "tiers[1]: has no list 'plugins'",
    ):
        assert words in said


def test_problems_come_as_json_too(tmp_path: Path) -> None:
    code, out = check(tmp_path, BAD, "-o", "json")
    assert code == 2
    assert json.loads(out)["valid"] is False
    assert len(json.loads(out)["problems"]) == 4


def test_every_plugin_and_action_has_its_arguments_in_one_table() -> None:
    out = CliRunner().invoke(cli, ["config", "arguments"]).output
    for name in PLUGINS:
        assert f"\n{name} " in out
    assert "binpack.weight" in CliRunner().invoke(cli, ["config", "arguments", "binpack"]).output


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=4) | st.integers(), v, max_size=2),
    max_leaves=4,
)
PLUGIN = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from([*PLUGINS, "gagn"]) | VALUES,
        "arguments": st.dictionaries(st.sampled_from(["binpack.weight", "sla-waiting-time", "x"]), VALUES) | VALUES,
        "path": st.sampled_from(["absent.py", ""]) | VALUES,
        **dict.fromkeys([*TOGGLES][:3], st.booleans() | VALUES),
    },
)
CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "actions": st.sampled_from(["allocate", "enqueue, allocate", ","]) | VALUES,
        "tiers": st.lists(st.fixed_dictionaries({"plugins": st.lists(PLUGIN, max_size=3) | VALUES}), max_size=2)
        | VALUES,
        "configurations": st.lists(PLUGIN | VALUES, max_size=2) | VALUES,
        "metrics": VALUES,
    },
)


@settings(max_examples=200, deadline=None)
@given(CONFIG | VALUES)
def test_any_document_is_a_configuration_or_refused(document: Any) -> None:
    with contextlib.suppress(InvalidInput):
        config_from(document)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse_config(text)


def test_what_is_built_in_is_valid(tmp_path: Path) -> None:
    assert check(tmp_path, default_config().text)[0] == 0
