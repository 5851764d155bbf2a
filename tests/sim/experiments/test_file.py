"""The file of an experiment: what it gives, and every problem at once with its place."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput, UsageError
from strato.sim.experiments.file import is_experiment, parse_document, read_experiment

HEAD: dict[str, Any] = {"apiVersion": "sim.strato.dev/v1alpha1", "kind": "Experiment"}
EASY = "actions: enqueue, allocate\ntiers: [{plugins: [{name: predicates}]}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("submit,run_time,replicas,cpu\n0,10,1,1\n")
    (tmp_path / "easy.yaml").write_text(EASY)
    (tmp_path / "queues.yaml").write_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec: {weight: 2}\n"
    )
    return tmp_path


def problems(document: dict[str, Any], folder: Path) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        parse_document({**HEAD, **document}, "e.yaml", folder)
    return [f"{one.where}: {one.message}" for one in raised.value.problems]


def test_runs_are_policies_by_variants_by_seeds(folder: Path) -> None:
    document = {
        **HEAD,
        "trace": "t.csv",
        "nodes": "2x4cpu",
        "queues": "queues.yaml",
        "policies": {"easy": "easy.yaml", "built-in": None, "mine": {"actions": "allocate"}},
        "variants": {"as it is": {}, "+1 node": {"nodes": {"count": 3, "shape": "4cpu"}}},
        "seeds": 2,
    }
    found = parse_document(document, "e.yaml", folder)
    assert found.name == "e"
    assert len(list(found.runs())) == 12
    assert [variant.nodes for variant in found.variants] == ["2x4cpu", "3x4cpu"]
    assert [queue["metadata"]["name"] for queue in found.variants[0].queues] == ["a"]
    assert [policy.text is None for policy in found.policies] == [False, True, False]
    assert len({run.digest("x") for run in found.runs()}) == 12


def test_a_file_with_a_trace_alone_has_the_built_in_policy(folder: Path) -> None:
    (folder / "e.yaml").write_text("apiVersion: sim.strato.dev/v1alpha1\nkind: Experiment\ntrace: t.csv\n")
    found = read_experiment(folder / "e.yaml")
    (run,) = found.runs()
    assert (run.label, run.variant.nodes, run.variant.shapes) == ("built-in, seed 0", "", ())
    assert is_experiment(folder / "e.yaml")
    assert not is_experiment(folder / "easy.yaml")
    assert not is_experiment(folder / "t.csv")
    assert not is_experiment(folder / "absent.yaml")


def test_specs_of_queues_may_stand_in_the_file(folder: Path) -> None:
    found = parse_document({**HEAD, "trace": "t.csv", "queues": {"a": {"weight": 3}, "b": None}}, "e.yaml", folder)
    assert [(one["metadata"]["name"], one["spec"]) for one in found.variants[0].queues] == [
        ("a", {"weight": 3}),
        ("b", {}),
    ]


def test_all_problems_come_at_once_with_their_places(folder: Path) -> None:
    (folder / "wrong.yaml").write_text("actions: enqeue\n")
    found = problems(
        {
            "trase": "t.csv",
            "nodes": "4xcpu",
            "policies": {"a": "absent.yaml", "b": "wrong.yaml", "c": 7},
            "variants": {"x": {"nodes": 5, "seed": 1}},
            "seeds": 0,
            "fidelity": "object",
            "queues": [{"kind": "Pod"}],
            "limit": -1,
        },
        folder,
    )
    text = "\n".join(found)
    for part in (
        "trase: no such key; did you mean 'trace'?",
        "trace: must be a file",
        "policies.a: ",
        "wrong.yaml: actions",
        "policies.c: must be a file or a configuration",
        "variants.x.nodes: must be text",
        "variants.x.seed: is nothing a variant has of its own",
        "seeds: must be a number of seeds",
        "fidelity: must be objects or decisions",
        "queues[0]: is no Queue",
        "limit: must be a whole number",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("document", "part"),
    [
        ({"apiVersion": "v1", "trace": "t.csv"}, "apiVersion: must be sim.strato.dev/v1alpha1"),
        ({"trace": "absent.csv"}, "absent.csv"),
        ({"trace": "x" * 300}, "there is no"),
        ({"trace": "a\0b"}, "there is no"),
        ({"trace": "t.csv", "fidelity": ["objects"]}, "fidelity: must be"),
        ({"trace": ["t.csv", 3]}, "trace: must be a file"),
        ({"trace": "t.csv", "seeds": [1, 1]}, "seeds: one is given twice"),
        ({"trace": "t.csv", "seeds": 10_000, "policies": {"a": None, "b": None}}, "20000 runs are more"),
        ({"trace": "t.csv", "variants": {}}, "variants: needs one at least"),
        ({"trace": "t.csv", "queues": {"a": {"weight": "x"}}}, "queues.a: Expected `int`"),
        ({"trace": "t.csv", "nodes": [{"count": 3}]}, "nodes: must be text"),
        ({"trace": "t.csv", "queues": "absent.yaml"}, "absent.yaml cannot be read"),
        ({"trace": "t.csv", "queues": "a\0b"}, "cannot be read: embedded null byte"),
        ({"trace": "t.csv", "policies": {"p": "a\0b"}}, "policies.p: "),
        ({"trace": "t.csv", "models": {"gpuSpeed": {"throughputs": "a\0b"}}}, "throughputs: is no path"),
        ({"trace": "t.csv", "hours": float("nan")}, "hours: must be a number"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], part: str, folder: Path) -> None:
    assert part in "\n".join(problems(document, folder))


def test_what_variants_share_is_named_once_and_what_they_replace_is_named_too(folder: Path) -> None:
    variants = {"a": {"nodes": "1x4cpu"}, "b": {"nodes": "2x4cpu"}}
    found = problems({"trace": "t.csv", "hours": -1, "nodes": "0x4cpu", "variants": variants}, folder)
    assert [one.partition(":")[0] for one in found] == ["hours", "nodes"]


def test_the_same_queue_twice_is_refused(folder: Path) -> None:
    queue = {"kind": "Queue", "metadata": {"name": "a"}}
    assert "there are two queues 'a'" in "\n".join(problems({"trace": "t.csv", "queues": [queue, queue]}, folder))


def test_a_file_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "e.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_experiment(folder / "e.yaml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["trace", "nodes", "queues", "policies", "variants", "seeds", "models"]), VALUES)
)
def test_garbage_is_refused_and_nothing_else_happens(document: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidInput):
        parse_document({**HEAD, **document}, "e.yaml", Path("/nonexistent"))
