"""What is read of stages, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strato.client.cluster import PatchType
from strato.errors import InvalidInput, UsageError
from strato.node.hollow.distributions import Draws
from strato.node.hollow.stages import parse_stages, read_stages
from strato.node.hollow.stages.lifecycle import delay_seconds, finalizer_patch, next_stage, patch_of
from strato.node.hollow.stages.model import Stage, StageStep


class Fixed:
    """Draws that are always the same."""

    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


def stage(spec: dict[str, Any], name: str = "one") -> Stage:
    body = {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {}, **spec}
    value = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": body}
    (found,) = parse_stages([("here", value)])
    return found


def requires(key: str, operator: str, *values: str) -> dict[str, Any]:
    one = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"selector": {"matchExpressions": [one]}}


POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "uid": "u",
        "labels": {"app": "web"},
        "annotations": {"wait": "5s", "until": "1970-01-01T00:01:00Z", "weight": "3", "none": ""},
        "finalizers": ["a", "b"],
    },
    "status": {"phase": "Pending", "ready": False, "count": 2},
}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"selector": {}}, True),
        ({"selector": {"matchLabels": {"app": "web"}}}, True),
        ({"selector": {"matchLabels": {"app": "db"}}}, False),
        ({"selector": {"matchAnnotations": {"weight": "3"}}}, True),
        ({"selector": {"matchAnnotations": {"other": ""}}}, False),
        (requires(".status.phase", "In", "Running", "Pending"), True),
        (requires(".status.phase", "NotIn", "Pending"), False),
        (requires(".status.ready", "In", "false"), True),
        (requires(".status.count", "In", "2"), True),
        (requires(".status.nothing", "In", "x"), False),
        (requires(".status.nothing", "NotIn", "x"), True),
        (requires(".status.nothing.[].x", "NotIn", "x"), True),
        (requires(".status.nothing.[].x", "DoesNotExist"), True),
        (requires(".status.phase", "Exists"), True),
        (requires(".status.phase", "DoesNotExist"), False),
    ],
)
def test_a_selector_matches(spec: dict[str, Any], want: bool) -> None:
    assert stage(spec).matches(POD) is want


@pytest.mark.parametrize(
    ("delay", "drawn", "want"),
    [
        ({}, 0.5, 0.0),
        ({"durationMilliseconds": 2000}, 0.5, 2.0),
        ({"durationMilliseconds": 2000, "jitterDurationMilliseconds": 6000}, 0.25, 3.0),
        ({"durationMilliseconds": 2000, "jitterDurationMilliseconds": 1000}, 0.5, 1.0),
        ({"durationFrom": {"expressionFrom": '.metadata.annotations["wait"]'}}, 0.5, 5.0),
        ({"durationFrom": {"jq": {"expression": ".metadata.annotations.wait"}}}, 0.5, 5.0),
        ({"durationMilliseconds": 1000, "durationFrom": {"expressionFrom": ".metadata.annotations.other"}}, 0.5, 1.0),
        ({"durationMilliseconds": 1000, "jitterDurationFrom": {"expressionFrom": ".metadata.annotations.until"}}, 0, 1),
        (
            {"durationMilliseconds": 1000, "jitterDurationFrom": {"expressionFrom": ".metadata.annotations.until"}},
            1,
            40,
        ),
        ({"durationMilliseconds": 1000, "durationFrom": {"expressionFrom": ".metadata.annotations.none"}}, 0.5, 0.0),
    ],
)
def test_a_delay_is_a_number_or_found_in_the_object(delay: dict[str, Any], drawn: float, want: float) -> None:
    assert delay_seconds(stage({"delay": delay} if delay else {}), POD, 20.0, Fixed(drawn)) == pytest.approx(want)


def test_of_several_stages_one_is_drawn_by_weight() -> None:
    stages = [stage({"weight": 1}, "one"), stage({"weight": 3}, "three"), stage({}, "none")]
    drawn = [next_stage(stages, POD, Fixed(part / 100)) for part in range(100)]
    assert [sum(found is one for found in drawn) for one in stages] == [25, 75, 0]
    by_annotation = stage({"weightFrom": {"expressionFrom": ".metadata.annotations.weight"}}, "annotated")
    assert next_stage([stages[2], by_annotation], POD, Fixed(0.0)) is by_annotation
    assert next_stage([stage({}, "a"), stage({}, "b")], POD, Draws("u")) is not None
    assert next_stage([stage(requires(".x", "Exists"))], POD, Draws("u")) is None


def test_steps_come_in_order() -> None:
    spec = {
        "next": {
            "event": {"type": "Normal", "reason": "Did", "message": "it"},
            "finalizers": {"add": [{"value": "c"}], "remove": [{"value": "a"}]},
            "delete": False,
            "patches": [
                {"subresource": "", "root": "metadata", "template": "labels: {x: {{ .metadata.uid | Quote }}}"}
            ],
            "statusTemplate": "phase: Running\ncount: {{ .status.count }}",
        }
    }
    first, patch, status = stage(spec).steps
    assert first.event == ("Normal", "Did", "it")
    assert finalizer_patch(first, ["a", "b"]) == [{"op": "add", "path": "/metadata/finalizers", "value": ["b", "c"]}]
    assert patch_of(patch, POD, {}) == ({"metadata": {"labels": {"x": "u"}}}, PatchType.STRATEGIC, "")
    assert patch_of(status, POD, {}).body == {"status": {"phase": "Running", "count": 2}}
    assert status.subresource == "status"


@pytest.mark.parametrize(
    ("step", "held", "want"),
    [
        (StageStep(empty_finalizers=True), ["a"], [{"op": "remove", "path": "/metadata/finalizers"}]),
        (StageStep(empty_finalizers=True), [], []),
        (StageStep(remove_finalizers=("a",)), ["a"], [{"op": "remove", "path": "/metadata/finalizers"}]),
        (StageStep(remove_finalizers=("x",)), ["a"], []),
        (StageStep(add_finalizers=("a",)), ["a"], []),
        (StageStep(add_finalizers=("a",)), [], [{"op": "add", "path": "/metadata/finalizers", "value": ["a"]}]),
    ],
)
def test_finalizers_change(step: StageStep, held: list[str], want: list[Any]) -> None:
    assert finalizer_patch(step, held) == want


def test_a_patch_of_operations_is_rooted() -> None:
    spec = {
        "steps": [{"patch": {"type": "json", "root": "metadata", "template": '[{"op": "remove", "path": "/labels"}]'}}]
    }
    (step,) = stage(spec).steps
    assert patch_of(step, POD, {}).body == [{"op": "remove", "path": "/metadata/labels"}]


def test_all_that_is_wrong_is_named_with_its_place() -> None:
    spec = {
        "resourceRef": {"apiGroup": "apps/v1", "kind": "Deployment"},
        "selector": {
            "matchExpressions": [{"key": ".a |", "operator": "Is", "values": []}, {"cel": {"expression": "1"}}]
        },
        "delay": {"durationMilliseconds": -1, "durationForm": 1},
        "next": {"statusTemplate": "{{ env }}", "statusPatchAs": {"username": "x"}, "patches": [{"type": "apply"}]},
    }
    with pytest.raises(InvalidInput) as refused:
        stage(spec)
    text = str(refused.value)
    for part in (
        "spec.resourceRef: apps/v1/Deployment: stages of Pod and Node (v1) are understood",
        "matchExpressions[0].operator: 'Is' is none of In, NotIn",
        "matchExpressions[0].key: query '.a |' ends",
        "matchExpressions[1].cel: is not understood here",
        "delay.durationMilliseconds: -1 is no number",
        "delay.durationForm: is not understood here; did you mean",
        "statusTemplate: {{ env }}: function env is not known",
        "next.statusPatchAs: is not understood here",
        "patches[0].type: 'apply' is none of json, merge, strategic",
    ):
        assert part in text


def test_stages_are_read_from_files_and_folders(tmp_path: Path) -> None:
    text = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: NAME}
spec: {resourceRef: {apiGroup: v1, kind: Pod}, selector: {}, next: {delete: true}}
"""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text(text.replace("NAME", "a") + "---" + text.replace("NAME", "b"))
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\n")
    assert [one.name for one in read_stages([tmp_path])] == ["a", "b"]
    for path, problem in ((tmp_path / "kustomization.yaml", "no objects of kind Stage"), (tmp_path / "x", "cannot be")):
        with pytest.raises(UsageError, match=problem):
            read_stages([path])
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(UsageError):
        read_stages([tmp_path])
