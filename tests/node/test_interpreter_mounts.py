"""A Python below a private directory stays visible to containers on the machine's root."""

from __future__ import annotations

import sys

import pytest

from strato.node.sandbox import interpretermounts
from strato.node.sandbox.interpretermounts import interpreter_mounts


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this package lie with the interpreter, wherever the checkout under test does."""
    monkeypatch.setattr(interpretermounts, "_packages", list)


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


def test_a_checkout_in_a_private_directory_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpretermounts, "_packages", lambda: ["/tmp/clone/src/strato"])
    monkeypatch.setattr(sys, "prefix", "/opt/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert [mount.target for mount in interpreter_mounts()] == ["/tmp/clone/src/strato"]
