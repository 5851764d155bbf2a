"""Whoever decodes JSON or MessagePack of others catches all that may come of it, not one kind of error."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

from strato.api.autoscaling import read_v1
from strato.decoding import UNDECODABLE

SOURCES = Path(__file__).parents[1] / "src/strato"
RAISES_IT_ITSELF = {"server/incrementaljson.py"}
"""A decoder of its own: what it passes on is caught where it is called."""


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'"\xff"', b'{"a": "\xff"}', b'{"\xff": 1}', b"[" * 5000, b'{"a":' * 5000, b"1 2"],
)
def test_json_that_is_broken_is_undecodable(body: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        msgspec.json.decode(body)


@pytest.mark.parametrize("body", [b"", b"\xa1\xff", b"\x81\xa1\xff\x01", b"\x91" * 5000, b"\xc1", b"\x01\x02"])
def test_messagepack_that_is_broken_is_undecodable(body: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        msgspec.msgpack.decode(body)


def test_nobody_catches_one_kind_of_undecodable_alone() -> None:
    found = []
    for path in SOURCES.rglob("*.py"):
        where = str(path.relative_to(SOURCES))
        for node in ast.walk(ast.parse(path.read_text())):
            caught: ast.AST | None = node.type if isinstance(node, ast.ExceptHandler) else None
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                caught = node
            if caught is not None and "msgspec.DecodeError" in ast.unparse(caught) and where not in RAISES_IT_ITSELF:
                found.append(f"{where}:{node.lineno}")  # type: ignore[attr-defined]  # both kinds have a line
    assert found == []


def test_an_autoscaler_whose_note_is_too_deep_can_be_read() -> None:
    notes = {"autoscaling.alpha.kubernetes.io/behavior": "[" * 5000, "a": "b"}
    scaler = {"metadata": {"name": "a", "annotations": notes}, "spec": {}, "status": {}}
    assert read_v1(scaler)["metadata"]["annotations"] == {"a": "b"}
