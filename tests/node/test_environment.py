"""Variables and command lines of containers: every source, each of its siblings, what is optional or missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import ConfigMap, Pod, Secret
from strato.node.sandbox.environment import (
    ConfigProblem,
    DownwardContext,
    References,
    command_line,
    environment,
    expand,
    references_in,
)

REFERENCES = References(
    {"cm": msgspec.convert({"data": {"key": "map"}, "binaryData": {"raw": "cmF3"}}, ConfigMap),
     "empty": msgspec.convert({}, ConfigMap), "bad": msgspec.convert({"binaryData": {"raw": "x"}}, ConfigMap)},
    {"s": msgspec.convert({"data": {"key": "c2VjcmV0"}}, Secret), "empty": msgspec.convert({}, Secret)},
)  # fmt: skip
PLACE = DownwardContext("node-1", "9.9.9.9", "1.2.3.4", {"cpu": "8", "memory": "16Gi"})


def pod(metadata: dict[str, Any] | None = None, *others: dict[str, Any], **container: Any) -> Pod:
    spec = {"serviceAccountName": "sa", "containers": [{"name": "m", "image": "i", **container}, *others]}
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **(metadata or {})}, "spec": spec}, Pod
    )


def variables(made: Pod) -> dict[str, str]:
    return environment(made, made.spec.containers[0], REFERENCES, PLACE)


ALL_OF = [
    ({"configMapRef": {"name": "cm"}}, {"key": "map"}),
    ({"secretRef": {"name": "s"}}, {"key": "secret"}),
    ({"prefix": "P_", "secretRef": {"name": "s"}}, {"P_key": "secret"}),
    ({"configMapRef": {"name": "empty"}}, {}),
    ({"secretRef": {"name": "empty"}}, {}),
    ({"configMapRef": {"name": "no", "optional": True}}, {}),
    ({"secretRef": {"name": "no", "optional": True}}, {}),
    ({"configMapRef": {"name": "no"}}, 'configmap "no" not found'),
    ({"secretRef": {"name": "no"}}, 'secret "no" not found'),
]


@pytest.mark.parametrize(("source", "want"), ALL_OF)
def test_all_of_an_object(source: dict[str, Any], want: dict[str, str] | str) -> None:
    made = pod(envFrom=[source])
    if isinstance(want, str):
        with pytest.raises(ConfigProblem, match=want):
            variables(made)
    else:
        assert variables(made) == want


def test_later_sources_win_and_variables_win_over_them() -> None:
    sources = [{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}}]
    assert variables(pod(envFrom=sources)) == {"key": "secret"}
    assert variables(pod(envFrom=sources, env=[{"name": "key", "value": "own"}]))["key"] == "own"


def resource(name: str, **more: Any) -> dict[str, Any]:
    return {"resourceFieldRef": {"resource": name, **more}}


ASKS = {"resources": {"limits": {"cpu": "1500m"}, "requests": {"cpu": "250m", "memory": "1Gi"}}}
ONE_OF: list[tuple[dict[str, Any], str | None]] = [
    ({"configMapKeyRef": {"name": "cm", "key": "key"}}, "map"),
    ({"configMapKeyRef": {"name": "cm", "key": "raw"}}, "! find key raw in ConfigMap ns/cm"),
    ({"secretKeyRef": {"name": "s", "key": "key"}}, "secret"),
    ({"configMapKeyRef": {"name": "cm", "key": "no", "optional": True}}, None),
    ({"secretKeyRef": {"name": "s", "key": "no", "optional": True}}, None),
    ({"configMapKeyRef": {"name": "no", "key": "key", "optional": True}}, None),
    ({"secretKeyRef": {"name": "s", "key": "no"}}, "! find key no in Secret ns/s"),
    ({"configMapKeyRef": {"name": "cm", "key": "no"}}, "! find key no in ConfigMap ns/cm"),
    ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
    ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "ns"),
    ({"fieldRef": {"fieldPath": "metadata.uid"}}, "u"),
    ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-1"),
    ({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "sa"),
    ({"fieldRef": {"fieldPath": "status.hostIP"}}, "9.9.9.9"),
    ({"fieldRef": {"fieldPath": "status.hostIPs"}}, "9.9.9.9"),
    ({"fieldRef": {"fieldPath": "status.podIPs"}}, "1.2.3.4"),
    ({"fieldRef": {"fieldPath": "metadata.labels['l']"}}, "label"),
    ({"fieldRef": {"fieldPath": "metadata.annotations['a']"}}, "note"),
    ({"fieldRef": {"fieldPath": "metadata.annotations['no']"}}, ""),
    ({"fieldRef": {"fieldPath": "metadata.labels"}}, 'l="label"'),
    ({"fieldRef": {"fieldPath": "metadata.annotations"}}, 'a="note"'),
    ({"fieldRef": {"fieldPath": "metadata.owner"}}, "! unsupported fieldPath: metadata.owner"),
    (resource("limits.cpu"), "2"),
    (resource("limits.cpu", divisor="1m"), "1500"),
    (resource("limits.cpu", divisor="0"), "2"),
    (resource("limits.memory", divisor="1Gi"), "16"),
    (resource("requests.memory", divisor="1Gi"), "1"),
    (resource("requests.ephemeral-storage"), "0"),
    (resource("limits.ephemeral-storage"), "0"),
    (resource("requests.cpu", divisor="1m", containerName="other"), "0"),
    (resource("limits.cpu", containerName="other"), "8"),
    (resource("limits.cpu", containerName="no"), "! container no not found"),
    (resource("limits."), "! unsupported container resource : limits."),
    (resource("wants.cpu"), "! unsupported container resource : wants.cpu"),
]


@pytest.mark.parametrize(("source", "want"), ONE_OF)
def test_one_value(source: dict[str, Any], want: str | None) -> None:
    metadata = {"labels": {"l": "label"}, "annotations": {"a": "note"}}
    made = pod(metadata, {"name": "other", "image": "i"}, env=[{"name": "X", "valueFrom": source}], **ASKS)
    if want is not None and want.startswith("!"):
        with pytest.raises(ConfigProblem, match=want[2:]):
            variables(made)
    else:
        assert variables(made) == ({} if want is None else {"X": want})


def test_pods_without_labels_have_none_to_show() -> None:
    for path in ("metadata.labels", "metadata.annotations", "metadata.labels['l']", "metadata.annotations['a']"):
        assert variables(pod(env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}])) == {"X": ""}


def test_references_are_named_without_escapes() -> None:
    assert references_in("$(A) $$(B) $$ $(C)$(A)") == ["A", "C", "A"]
    assert references_in("none") == []


def test_binary_data_is_for_files_only() -> None:
    assert REFERENCES.config_data("cm", optional=False) == {"key": b"map", "raw": b"raw"}
    assert REFERENCES.config_data("empty", optional=False) == {}
    with pytest.raises(ConfigProblem, match='configmap "bad" has data that is no base64'):
        REFERENCES.config_data("bad", optional=False)


IMAGE = (("entry", "point"), ("its", "args"))
LINES = [
    ({}, ["entry", "point", "its", "args"]),
    ({"command": ["run", "$(X)"]}, ["run", "1"]),
    ({"args": ["$(X)", "$(Y)"]}, ["entry", "point", "1", "$(Y)"]),
    ({"command": ["run"], "args": ["2"]}, ["run", "2"]),
]


@pytest.mark.parametrize(("container", "line"), LINES)
def test_a_command_replaces_the_image_s_command_and_arguments(container: dict[str, Any], line: list[str]) -> None:
    made = pod(**container).spec.containers[0]
    assert command_line(made, {"X": "1"}, *IMAGE) == line


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ([("A", "x" * 1000), *((chr(66 + n), f"$({chr(65 + n)})" * 100) for n in range(8))], "refers to is longer"),
        ([("A", "x" * 1000), ("B", "$(A)" * 100), *((f"V{n}", "$(B)") for n in range(100))], "up to 'V19' are longer"),
    ],
    ids=["each a hundred of the one before", "all of them together"],
)
def test_variables_that_grow_without_end_are_refused(env: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ConfigProblem, match=message):
        variables(pod(env=[{"name": name, "value": value} for name, value in env]))


def test_arguments_that_grow_without_end_are_refused() -> None:
    made = pod(args=["$(A)"] * 1000)
    with pytest.raises(ConfigProblem, match="longer than a program may be given"):
        command_line(made.spec.containers[0], {"A": "x" * 10_000}, (), ())


@pytest.mark.parametrize(
    ("text", "want", "names"),
    [
        ("$(" * 300_000, "$(" * 300_000, []),
        ("$(A)$($(A)$$", "1$($(A)$", ["A", "$(A"]),
        ("$$(A)$$$", "$(A)$$", []),
    ],
    ids=["many", "one in another", "dollars"],
)
def test_references_that_do_not_end_are_text_and_read_in_linear_time(text: str, want: str, names: list[str]) -> None:
    """Quadratic, the first one would take an hour."""
    assert expand(text, {"A": "1"}) == want
    assert references_in(text) == names
