"""Built-in kinds: unknown fields, duplicates, types, merge keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strato.api import catalog
from strato.server.schema import builtin


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def test_a_clean_pod_has_nothing_to_report() -> None:
    obj = pod(nodeSelector={"a": "b"}, containers=[{"name": "c", "resources": {"limits": {"cpu": "1", "memory": 5}}}])
    assert builtin.typed(catalog.POD, obj) == ([], [])


def test_unknown_fields_carry_their_path() -> None:
    obj = pod(foo=1, containers=[{"name": "c", "bar": {}}])
    assert builtin.typed(catalog.POD, obj)[0] == [
        'unknown field "spec.containers[0].bar"',
        'unknown field "spec.foo"',
    ]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param({"foo": 1}, {}, id="an unknown field is dropped"),
        pytest.param({"nodeName": None}, {}, id="a null is dropped"),
        pytest.param(
            {"nodeSelector": {"a": None}}, {"nodeSelector": {"a": ""}}, id="a null in a map of strings is empty"
        ),
        pytest.param({"imagePullSecrets": [None]}, {"imagePullSecrets": [{}]}, id="a null in a list is an empty item"),
    ],
)
def test_objects_become_what_types_hold(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    obj = pod(**sent)
    builtin.typed(catalog.POD, obj)
    assert obj == pod(**kept)


def test_times_without_a_value_stay_null() -> None:
    condition = {"type": "Ready", "status": "True", "lastProbeTime": None}
    obj = {**pod(), "metadata": {"name": "a", "creationTimestamp": None}, "status": {"conditions": [condition]}}
    builtin.typed(catalog.POD, obj)
    assert obj == {**pod(), "status": {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"containers": "x"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"hostNetwork": "yes"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            {"priority": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
    ],
)
def test_wrong_types_are_worded_as_the_decoder_does(spec: dict[str, Any], want: str) -> None:
    assert builtin.typed(catalog.POD, pod(**spec))[1] == [want]


@pytest.mark.parametrize("spaces", [None, 2])
def test_duplicate_fields_are_found(spaces: int | None) -> None:
    body = b'{"a":{"b":1,"b":2},"l":[{"x":1},{"x":1,"x":2}]}'
    assert builtin.duplicate_fields(body, json.loads(body)) == ['duplicate field "a.b"', 'duplicate field "l[1].x"']
    clean = json.dumps(pod(), indent=spaces).encode()
    assert builtin.duplicate_fields(clean, json.loads(clean)) == []


def test_duplicate_fields_are_found_behind_odd_spaces() -> None:
    body = b'{"a" :1,"b":2,"b":3}'
    assert builtin.duplicate_fields(body, json.loads(body)) == ['duplicate field "b"']


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("spec.containers", ("name", "merge")),
        ("spec.containers.ports", ("containerPort", "merge")),
        ("spec.volumes", ("name", "merge,retainKeys")),
        ("spec.tolerations", (None, "replace")),
        ("metadata.finalizers", (None, "merge")),
        ("metadata.ownerReferences", ("uid", "merge")),
        ("spec.nodeSelector", (None, "merge")),
        ("no.such.field", (None, "replace")),
    ],
)
def test_merge_keys(path: str, want: tuple[str | None, str]) -> None:
    info = builtin.merge_info(catalog.POD)
    assert info is not None
    assert info.list_strategy(tuple(path.split("."))) == want


def test_custom_kinds_have_no_merge_keys() -> None:
    assert builtin.merge_info(catalog.VCJOB) is None


def test_unknown_and_repeated_fields_are_named_in_the_order_of_the_document() -> None:
    body = b'{"a":{"new":{"x":1,"x":2},"new":1,"b":1,"b":2},"other":1}'
    unknown = ['unknown field "other"', 'unknown field "a.new"']
    assert builtin.in_document_order(body, unknown) == [
        'unknown field "a.new"',
        'duplicate field "a.b"',
        'unknown field "other"',
    ]
