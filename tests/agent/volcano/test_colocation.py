"""Volcano's agent functions against a real API in this process, and a faked tree of the kernel's files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from strato.agent.agent import Agent, AgentOptions
from strato.agent.events import Action, ActionKind
from strato.agent.sampling.layouts import ControlGroup, SandboxLayout
from strato.agent.volcano.colocation import ColocationOptions
from strato.agent.volcano.config import CONFIGMAP, KEY, Feature, default_text, supported_features
from strato.agent.volcano.nodewrites import TAINT
from strato.api import catalog
from strato.api.core import Node
from strato.client.cluster import PatchType
from strato.testing.harness import Harness
from tests.agent.test_agent import CORES, Kernel, new_agent

BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
GIB = 1 << 30


class World:
    """A node with 48 cores and 64 GiB, its agent, and what its pods use."""

    def __init__(self, harness: Harness, kernel: Kernel, agent: Agent, node: str) -> None:
        self.harness, self.kernel, self.agent, self.node = harness, kernel, agent, node
        self.used_seconds = 0.0
        (kernel.folder / "groups/memory.stat").write_text("anon 0\n")

    async def rounds(self, count: int = 1, *, cores: float = 0.0, memory: int = 0) -> None:
        """Let rounds of 10 s pass in which pods use so many cores and hold so many bytes."""
        (self.kernel.folder / "groups/memory.stat").write_text(f"anon {memory}\n")
        for _ in range(count):
            self.used_seconds += cores * 10
            (self.kernel.folder / "groups/cpu.stat").write_text(f"usage_usec {self.used_seconds * 1e6:.0f}\n")
            self.kernel.at += 10
            await self.step()
            await self.settle()

    async def step(self) -> None:
        self.agent.groups()
        await self.agent.colocation.step(self.agent._running.containers, self.kernel.at)

    async def settle(self) -> None:
        """Wait until the agent knows its node, pods and configuration as they are."""
        cluster, colocation, agent = self.harness.cluster, self.agent.colocation, self.agent
        for kind, namespace, informer in (
            (catalog.NODE, "", colocation._nodes),
            (catalog.POD, "default", agent._pods),
            (catalog.CONFIGMAP, "default", colocation._configs),
        ):
            found = (await cluster.list(kind, namespace)).items
            wanted = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}
            wanted.pop("kube-root-ca.crt", None)

            def is_known(wanted: dict[str, str] = wanted, informer: Any = informer) -> bool:
                known = {one.metadata.name: one.metadata.resource_version for one in informer.list()}
                return known.keys() == wanted.keys() and all(int(known[one]) >= int(wanted[one]) for one in wanted)

            await self.harness.eventually(is_known, what=f"the informer of {kind.plural} is current", timeout_seconds=5)

    async def object(self) -> dict[str, Any]:
        return await self.harness.cluster.get(catalog.NODE, self.node)

    async def lent(self) -> dict[str, str]:
        status = (await self.object())["status"]
        assert all(
            status["capacity"].get(name) == status["allocatable"].get(name) for name in (BATCH_CPU, BATCH_MEMORY)
        )
        return {name: text for name, text in status["allocatable"].items() if name.startswith("kubernetes.io/batch")}

    async def label(self, value: str | None) -> None:
        await self.patch({"metadata": {"labels": {"volcano.sh/oversubscription": value}}})

    async def patch(self, body: dict[str, Any]) -> None:
        await self.harness.cluster.patch(catalog.NODE, self.node, "", body)
        await self.settle()

    async def configure(self, **sections: Any) -> None:
        text = json.dumps({"globalConfig": sections})
        found = await self.harness.cluster.list(catalog.CONFIGMAP, "default")
        data = {"data": {KEY: text}}
        if any(one["metadata"]["name"] == CONFIGMAP for one in found.items):
            await self.harness.cluster.patch(catalog.CONFIGMAP, CONFIGMAP, "default", data)
        else:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIGMAP, "namespace": "default"}}
            await self.harness.cluster.create(catalog.CONFIGMAP, {**body, **data}, "default")
        await self.settle()

    async def offer(self) -> None:
        """Let the node have lent something before, or it would not take pods that borrow."""
        amounts = {BATCH_CPU: "20000", BATCH_MEMORY: "20Gi"}
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        cluster, nodes = self.harness.cluster, self.harness.world.informers.informer(Node)
        await cluster.patch(catalog.NODE, self.node, "", body, patch_type=PatchType.STRATEGIC, subresource="status")
        nodes.add_batch_handler(self.harness._on_changes)
        await self.harness.eventually(lambda: BATCH_CPU in nodes.list()[0].status.allocatable)

    async def run_pod(self, name: str, level: str = "BE", amounts: dict[str, str] | None = None) -> str:
        resources = {"requests": amounts or {}, "limits": amounts or {}}
        annotations = {"volcano.sh/qos-level": level} if level else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"nodeName": self.node, "containers": [{"name": "main", "image": "i", "resources": resources}]},
        }
        made = await self.harness.cluster.create(catalog.POD, body, "default")
        uid = str(made["metadata"]["uid"])
        self.kernel.start(uid)
        for folder in (self.kernel.folder / "groups" / uid, self.kernel.folder / "groups" / uid / "main"):
            for file, text in (
                ("cpu.max", "max 100000"),
                ("cpu.weight", "100"),
                ("memory.max", "max"),
                ("cpu.idle", "0"),
            ):
                (folder / file).write_text(text + "\n")
            (folder / "cpu.max.burst").write_text("0\n")
            for file in ("memory.high", "memory.low", "memory.min"):
                (folder / file).write_text("0\n")
        await self.harness.eventually(lambda: self.harness.pod(name).status.phase == "Running")
        return uid

    def file(self, uid: str, name: str) -> list[str]:
        """Return what a file of the pod's group and of its container's says."""
        folder = self.kernel.folder / "groups" / uid
        return [(one / name).read_text().strip() for one in (folder, folder / "main")]

    async def pods(self) -> list[str]:
        found = (await self.harness.cluster.list(catalog.POD, "default")).items
        return sorted(one["metadata"]["name"] for one in found if not one["metadata"].get("deletionTimestamp"))

    async def events(self, reason: str) -> list[str]:
        await self.agent._events.flush()
        found = (await self.harness.cluster.list(catalog.EVENT, "")).items
        return [one["message"] for one in found if one["reason"] == reason]


@asynccontextmanager
async def world(
    tmp_path: Path, features: str = "*", layout: type[SandboxLayout] = SandboxLayout, **options: Any
) -> AsyncIterator[World]:
    async with Harness(nodes=f"1x{CORES}cpu,64Gi", scheduler=False, controllers=()) as harness:
        node = next(iter((await harness.cluster.list(catalog.NODE)).items))["metadata"]["name"]
        kernel = Kernel(tmp_path)
        colocation = ColocationOptions(features=supported_features(features), **options)
        settings = AgentOptions(
            node=node,
            namespace="default",
            cpus=CORES,
            proc=str(tmp_path / "proc"),
            sys=str(tmp_path / "sys"),
            colocation=colocation,
        )
        agent = await new_agent(harness, tmp_path, settings, layout)
        for informer in (agent.colocation._nodes, agent.colocation._configs, agent._pods):
            informer.add_batch_handler(harness._on_changes)
        yield World(harness, kernel, agent, node)


async def test_what_is_left_is_lent_while_the_label_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.rounds(3, cores=8)
        assert await found.lent() == {}, "a node without the label lends nothing, and gets no label"
        assert "volcano.sh/oversubscription" not in (await found.object())["metadata"].get("labels", {})
        await found.label("true")
        await found.rounds(2, cores=8, memory=14 * GIB)
        allocatable = (await found.object())["status"]["allocatable"]
        assert allocatable["cpu"] == "48"
        assert await found.lent() == {BATCH_CPU: "24000", BATCH_MEMORY: str(30 * GIB)}
        await found.rounds(20, cores=48, memory=64 * GIB)
        assert int((await found.lent())[BATCH_CPU]) < 24000 * 0.01
        await found.label("false")
        await found.rounds(2)
        assert await found.lent() == {}


async def test_switching_the_section_off_takes_back_what_is_lent_and_on_lends_again(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.label("true")
        await found.offer()
        await found.run_pod("borrower", amounts={BATCH_CPU: "2000"})
        await found.run_pod("offline")
        await found.run_pod("online", "", {"cpu": "1"})
        await found.rounds(3, cores=8)
        assert BATCH_CPU in await found.lent()
        await found.configure(overSubscriptionConfig={"enable": False}, evictingConfig={})
        await found.rounds(3)
        assert await found.lent() == {}
        assert (await found.object())["metadata"]["labels"]["volcano.sh/oversubscription"] == "false"
        assert await found.pods() == ["offline", "online"]
        assert await found.events("Evicted") == ["Evict offline pod due to node overSubscription is turned off"]
        await found.configure(overSubscriptionConfig={"enable": True}, evictingConfig={})
        await found.rounds(4, cores=8)
        assert (await found.object())["metadata"]["labels"]["volcano.sh/oversubscription"] == "true"
        assert BATCH_CPU in await found.lent()


async def test_types_and_the_node_s_annotation_say_what_is_lent(tmp_path: Path) -> None:
    async with world(tmp_path, ratio_percent=100) as found:
        await found.label("true")
        await found.configure(overSubscriptionConfig={"overSubscriptionTypes": "memory"}, evictingConfig={})
        await found.rounds(7, cores=8, memory=14 * GIB)
        assert await found.lent() == {BATCH_CPU: "0", BATCH_MEMORY: str(50 * GIB)}
        await found.patch({"metadata": {"annotations": {"volcano.sh/oversubscription-types": "cpu"}}})
        await found.rounds(7, cores=8, memory=14 * GIB)
        assert await found.lent() == {BATCH_CPU: "40000", BATCH_MEMORY: "0"}


async def test_under_pressure_the_largest_offline_pod_goes_and_others_are_kept_off(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.label("true")
        await found.offer()
        await found.run_pod("small", amounts={BATCH_CPU: "500"})
        await found.run_pod("large", amounts={BATCH_CPU: "9000"})
        await found.run_pod("online", "", {"cpu": "20"})
        await found.patch({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}})
        await found.rounds(6, cores=39)
        assert await found.pods() == ["large", "online", "small"], "six rounds, of which the first has no use"
        await found.rounds(1, cores=39)
        assert await found.pods() == ["online", "small"]
        assert await found.events("Evicted") == ["Evict offline pod due to cpu resource pressure"]
        assert [one["key"] for one in (await found.object())["spec"]["taints"]] == ["other", TAINT]
        await found.rounds(3, cores=20)
        assert len((await found.object())["spec"]["taints"]) == 2, "between the watermarks nothing changes"
        await found.rounds(2, cores=1)
        assert [one["key"] for one in (await found.object())["spec"]["taints"]] == ["other"]
        assert await found.pods() == ["online", "small"]


async def test_a_pod_that_goes_for_one_resource_does_not_go_for_another_too(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.label("true")
        await found.offer()
        for name, cpu in (("small", "500"), ("large", "9000"), ("tiny", "100")):
            await found.run_pod(name, amounts={BATCH_CPU: cpu, BATCH_MEMORY: cpu + "Ki"})
        held = {"metadata": {"finalizers": ["example.com/held"]}}  # it stays for a while
        await found.harness.cluster.patch(catalog.POD, "large", "default", held)
        await found.rounds(1)
        await found.rounds(6, cores=39, memory=40 * GIB)
        assert await found.pods() == ["tiny"]
        texts = [f"Evict offline pod due to {one} resource pressure" for one in ("cpu", "memory")]
        assert await found.events("Evicted") == texts


async def test_under_pressure_the_next_pod_goes_where_the_api_refuses_the_first(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.label("true")
        await found.offer()
        await found.run_pod("small", amounts={BATCH_CPU: "500"})
        await found.run_pod("large", amounts={BATCH_CPU: "9000"})
        cluster = found.harness.cluster
        await cluster.patch(catalog.POD, "large", "default", {"metadata": {"labels": {"app": "large"}}})
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "large"}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
        await cluster.create(catalog.PODDISRUPTIONBUDGET, budget, "default")
        await found.rounds(7, cores=39)
        assert await found.pods() == ["large"]
        assert len(await found.events("Evicted")) == 1


async def test_pods_are_held_to_what_they_borrow_from_their_first_second(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.offer()
        uid = await found.run_pod("borrower", amounts={BATCH_CPU: "1500", BATCH_MEMORY: "1Gi"})
        high = await found.run_pod("critical", "LC", {BATCH_CPU: "1500"})
        await found.step()
        assert found.file(uid, "cpu.max") == ["150000 100000"] * 2
        assert found.file(uid, "cpu.weight") == ["150"] * 2
        assert found.file(uid, "memory.max") == [str(GIB)] * 2
        assert found.file(high, "cpu.max") == ["max 100000"] * 2
        [facts] = [one for one in found.agent._running.containers.values() if one.pod.metadata.uid == uid]
        assert (facts.base_milli, facts.request_milli) == (1500, 1500), "what a suppression gives back"


async def test_qos_follows_the_switches_and_is_taken_back(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.patch({"metadata": {"labels": {"volcano.sh/colocation": "true"}}})
        uid = await found.run_pod("offline", amounts={"cpu": "500m", "memory": "1Gi"})
        text = json.dumps({"memoryQos": {"highRatio": 80, "lowRatio": 50}})
        notes = {"volcano.sh/colocation-config": text, "volcano.sh/enable-quota-burst": "true"}
        await found.harness.cluster.patch(catalog.POD, "offline", "default", {"metadata": {"annotations": notes}})
        for folder in ("", "main"):
            (tmp_path / "groups" / uid / folder / "cpu.max").write_text("50000 100000\n")
        switches = {name: {"enable": True} for name in ("cpuQosConfig", "cpuBurstConfig", "memoryQosV2Config")}
        await found.configure(**switches, overSubscriptionConfig={}, evictingConfig={})
        await found.rounds(1)
        assert found.file(uid, "cpu.idle") == ["1", "1"]
        assert found.file(uid, "cpu.max.burst") == ["50000", "50000"]
        assert found.file(uid, "memory.high")[1] == str(GIB * 80 // 100)
        assert found.file(uid, "memory.low")[1] == str(GIB // 2)
        switches["cpuQosConfig"] = {"enable": False}
        await found.configure(**switches, overSubscriptionConfig={}, evictingConfig={})
        await found.rounds(1)
        assert found.file(uid, "cpu.idle") == ["0", "0"]
        assert found.file(uid, "cpu.weight") == ["100", "100"]


async def test_a_configuration_that_is_wrong_leaves_the_old_one_and_a_missing_one_is_made(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.rounds(1)
        made = await found.harness.cluster.get(catalog.CONFIGMAP, CONFIGMAP, "default")
        assert made["data"][KEY] == default_text()
        await found.label("true")
        await found.configure(overSubscriptionConfig={"overSubscriptionTypes": "gpu"}, evictingConfig={})
        await found.rounds(1)
        assert Feature.OVERSUBSCRIPTION in found.agent.colocation.active or await found.events("ConfigApplyFailed")
        [message] = await found.events("ConfigApplyFailed")
        assert "'gpu' must be cpu, memory or both" in message
        await found.configure(cpuQosConfig={"enable": True})
        await found.rounds(2)
        assert Feature.CPU_QOS in found.agent.colocation.active
        filled = json.loads((await found.harness.cluster.get(catalog.CONFIGMAP, CONFIGMAP, "default"))["data"][KEY])
        assert set(filled["globalConfig"]) == {"cpuQosConfig", "overSubscriptionConfig", "evictingConfig"}


async def test_best_effort_pods_are_throttled_to_what_the_others_leave(tmp_path: Path) -> None:
    group = tmp_path / "groups/besteffort"

    class Grouped(SandboxLayout):
        def best_effort(self) -> ControlGroup:
            return ControlGroup(str(group), str(group), str(group), is_unified=True)

    async with world(tmp_path, layout=Grouped) as found:
        group.mkdir()
        (group / "cpu.max").write_text("max 100000\n")
        (group / "cpu.stat").write_text("usage_usec 0\n")
        await found.label("true")
        await found.configure(cpuThrottlingConfig={"enable": True}, overSubscriptionConfig={}, evictingConfig={})
        await found.rounds(2, cores=20)
        milli = found.agent.colocation.class_quota_milli
        assert milli == CORES * 800 - 20_000
        found.agent._best_effort.read()
        await found.agent._best_effort.apply([Action(kind=ActionKind.SET_CLASS_QUOTA, value=milli)])
        assert (group / "cpu.max").read_text().split()[0] == str(milli * 100)
        await found.configure(overSubscriptionConfig={}, evictingConfig={})
        await found.rounds(1)
        assert found.agent.colocation.class_quota_milli is None
        await found.agent._best_effort.apply([])
        assert (group / "cpu.max").read_text().split()[0] == "max"


async def test_what_a_node_cannot_do_is_said_once(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.label("true")
        await found.run_pod("offline")
        sections = {"networkQosConfig": {"enable": True}, "cpuThrottlingConfig": {"enable": True}}
        await found.configure(**sections, overSubscriptionConfig={}, evictingConfig={})
        await found.rounds(4, cores=1)
        reports = sorted(await found.events("NetworkQoSUnsupported"))
        assert [("not installed" in one, "net_cls.classid" in one) for one in reports] == [(True, False), (False, True)]
        assert len(await found.events("NoBestEffortGroup")) == 1


async def test_the_machine_s_use_counts_where_it_is_to(tmp_path: Path) -> None:
    async with world(tmp_path, include_system_usage=True) as found:
        await found.label("true")
        (tmp_path / "proc/meminfo").write_text(f"MemTotal: {64 << 20} kB\nMemAvailable: {32 << 20} kB\n")
        await found.rounds(1)
        for _ in range(9):
            found.kernel.pass_second(found.agent, 0.5, {})
        await found.rounds(1)
        assert await found.lent() == {BATCH_CPU: str(CORES * 500 * 60 // 100), BATCH_MEMORY: str(32 * GIB * 60 // 100)}


async def test_cpus_that_a_pod_has_for_itself_are_not_lent(tmp_path: Path) -> None:
    async with world(tmp_path, ratio_percent=100) as found:
        found.agent._running._static_cpus = True
        await found.label("true")
        await found.run_pod("alone", "", {"cpu": "8", "memory": "1Gi"})
        await found.rounds(7, cores=10)
        assert (await found.lent())[BATCH_CPU] == str((CORES - 8 - 10) * 1000)
