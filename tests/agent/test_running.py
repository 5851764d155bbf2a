"""The containers that run, worked out anew when a pod changes and only then."""

from __future__ import annotations

from pathlib import Path

import msgspec

from strato.agent.running import RunningContainers
from strato.agent.sampling.layouts import ControlGroup
from strato.api.core import Pod


class CountingLayout:
    """Has a group for each container, at a place that changes until it is there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, 0

    def pod(self, uid: str, qos: str) -> ControlGroup | None:
        return None

    def best_effort(self) -> ControlGroup | None:
        return None

    def container(self, uid: str, qos: str, name: str, container_id: str) -> ControlGroup | None:
        self.asked += 1
        path = str(self.folder / uid)
        return ControlGroup(path, path, path, is_unified=True)


def pod(uid: str, version: str, phase: str = "Running") -> Pod:
    state = {"running": {"startedAt": "2026-11-24T00:00:00Z"}}
    status = {"phase": phase, "containerStatuses": [{"name": "main", "containerID": f"x://{uid}", "state": state}]}
    metadata = {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": version}
    spec = {"containers": [{"name": "main", "image": "i"}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod, strict=False)


def test_groups_are_looked_for_when_a_pod_changes_and_only_then(tmp_path: Path) -> None:
    layout = CountingLayout(tmp_path)
    running = RunningContainers(layout, static_cpus=False)
    for uid in "ab":
        (tmp_path / uid).mkdir()
    for _ in range(3):
        running.update([pod("a", "1"), pod("b", "1")])
    assert (layout.asked, sorted(running.groups)) == (2, ["a/main", "b/main"])
    running.update([pod("a", "1"), pod("b", "2", "Succeeded")])
    assert (layout.asked, list(running.containers), list(running.groups)) == (3, ["a/main"], ["a/main"])
    running.update([])
    assert (running.containers, running.groups) == ({}, {})


def test_a_group_that_is_not_there_yet_is_looked_for_again(tmp_path: Path) -> None:
    layout = CountingLayout(tmp_path)
    running = RunningContainers(layout, static_cpus=False)
    for expected in (1, 2):
        running.update([pod("a", "1")])
        assert layout.asked == expected
    (tmp_path / "a").mkdir()
    for _ in range(3):
        running.update([pod("a", "1")])
    assert layout.asked == 3
