"""A Python below a private directory stays visible to containers on the machine's root."""

from __future__ import annotations

import sys

import pytest

from strato.node.sandbox.sandbox import interpreter_mounts


@pytest.mark.parametrize(
    ("prefix", "base", "want"),
    [
        pytest.param("/opt/venv", "/usr", [], id="nothing when no prefix is hidden"),
        pytest.param("/tmp/clone/.venv", "/usr", ["/tmp/clone/.venv"], id="a virtual environment in tmp"),
        pytest.param("/run/py", "/run/py", ["/run/py"], id="the interpreter itself, once"),
        pytest.param("/tmpfiles/venv", "/usr", [], id="a directory whose name only begins like a private one"),
    ],
)
def test_interpreter_mounts(monkeypatch: pytest.MonkeyPatch, prefix: str, base: str, want: list[str]) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", base)
    mounts = interpreter_mounts()
    assert [mount.target for mount in mounts] == want
    assert all(mount.read_only and mount.source == mount.target for mount in mounts)


def test_a_mount_of_the_pod_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/tmp/v")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert interpreter_mounts({"/tmp/v"}) == []
