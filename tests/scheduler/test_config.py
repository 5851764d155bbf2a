"""Volcano's configuration file: every problem at once, each with its place and the nearest valid name."""

from __future__ import annotations

import pytest

from strato.errors import InvalidInput
from strato.scheduler.config import default_config, parse_config

BAD = [
    pytest.param(
        "actions: 'enqueue, alocate'", "no such action 'alocate'; did you mean 'allocate'?", id="typo in action"
    ),
    pytest.param("actions: ''", "no such action ''", id="empty action"),
    pytest.param("tiers: []", "actions: missing", id="no actions"),
    pytest.param("actions: allocate\ntier: []", "tier: no such key; did you mean 'tiers'?", id="typo in key"),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - name: gan",
        "tiers[0].plugins[0].name: no such plugin 'gan'; did you mean 'gang'?",
        id="typo in plugin",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - name: ./cheap.py:Cheap",
        "no such plugin './cheap.py:Cheap'; of a file say 'path: ./cheap.py'",
        id="a file as name",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: gang, enabledJobOrder: true}",
        "did you mean 'enableJobOrder'?",
        id="wrong spelling of a toggle",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: gang, enableJobOrder: 3}",
        "enableJobOrder: 3 is not true or false",
        id="toggle of the wrong type",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: binpack, arguments: {binpack.weight: '5'}}",
        "binpack.weight: '5' is not a whole number",
        id="quoted number",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: binpack, arguments: {binpack.wieght: 5}}",
        "did you mean 'binpack.weight'?",
        id="typo in argument",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: gang, arguments: {a: 1}}",
        "this plugin has no arguments",
        id="argument where there are none",
    ),
    pytest.param(
        "actions: allocate\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n  - name: proportion",
        "exclude each other",
        id="hierarchical drf beside proportion",
    ),
    pytest.param("actions: [a", "not YAML", id="not YAML"),
    pytest.param("- a", "the top level is not a mapping", id="not a mapping"),
    pytest.param("actions: allocate\ntiers: 3", "tiers: not a list", id="tiers not a list"),
    pytest.param(
        "actions: allocate\nconfigurations:\n- name: alocate",
        "configurations[0].name: no such action",
        id="unknown section",
    ),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_bad_configuration_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_config(text)
    assert words in str(caught.value)


def test_all_problems_are_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_config("actions: 'a, b'\ntiers:\n- plugins:\n  - name: c\n  - {name: binpack, arguments: {d: 1}}")
    assert len(caught.value.problems) == 4


def test_built_in_configuration() -> None:
    config = default_config()
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert [[o.name for o in tier] for tier in config.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]


def test_arguments_are_typed() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: 10\n"
        "      binpack.resources: nvidia.com/gpu\n      binpack.resources.nvidia.com/gpu: 8\n"
    )
    args = parse_config(text).tiers[0][0].args
    assert (args.weight, args.cpu, args.resources) == (10, 1, "nvidia.com/gpu")
    assert args.resource_weights == {"nvidia.com/gpu": 8}
