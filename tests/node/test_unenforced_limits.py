"""A node that cannot keep a limit says so: in its log and status, in an event of its own, and in one of each pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.node.sandbox import cgroups as cgroups_module
from strato.node.sandbox.cgroups import Cgroups
from strato.node.sandbox.settings import PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import running


async def test_a_node_without_cpu_limits_says_so_and_of_which_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cgroups_module._find_roots
    if "cpu" not in real("strato-test-probe", "/sys/fs/cgroup", "/proc/self/cgroup"):
        pytest.skip("needs a writable hierarchy for cpu, of version 1")
    Cgroups("strato-test-probe").remove_all()

    def without_cpu(*where: str) -> dict[str, str]:
        return {name: group for name, group in real(*where).items() if name != "cpu"}

    monkeypatch.setattr(cgroups_module, "_find_roots", without_cpu)
    async with running(tmp_path / "node", FakeApi(), network=PodNetwork.HOST) as world:
        [warning] = [text for text in world.node.summary().warnings if "not enforced" in text]
        assert warning.startswith("CPU limits are not enforced: ")
        world.sh("limited", "true", container={"resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}})
        world.sh("free", "true", container={"resources": {"limits": {"memory": "64Mi"}}})
        for name in ("limited", "free"):
            assert (await world.finished(name))["phase"] == "Succeeded"
        said = [message for reason, message in await world.events() if reason == "LimitsNotEnforced"]
    assert sorted(said) == sorted([warning, "Container main: this node does not enforce its limit of cpu"])
