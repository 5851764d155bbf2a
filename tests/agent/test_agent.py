"""The agent of one node against a real API in this process, and a faked tree of the kernel's files."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strato.agent.agent import Agent, AgentOptions
from strato.agent.containers import facts_of
from strato.agent.cordons import report_condition
from strato.agent.events import SUPPRESSED, Action, ActionKind
from strato.agent.policy import WebhookOptions
from strato.agent.quotas import QuotaWriter, RoundState
from strato.agent.sampling.groupfiles import Quota
from strato.agent.sampling.layouts import ControlGroup, SandboxLayout
from strato.api import catalog
from strato.api.core import Event, Node
from strato.api.suppression import SUPPRESSED_CONTAINERS
from strato.clock import Clock
from strato.errors import Unavailable
from strato.metrics import Registry
from strato.testing.harness import Harness

CORES = 48
TICKS = os.sysconf("SC_CLK_TCK")
NODE = "node-0"


class Kernel:
    """A host whose files say what a test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.busy, self.at = 0.0, 0.0
        self.used: dict[str, float] = {}
        (folder / "proc/net").mkdir(parents=True)
        (folder / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 600 kB\n")
        (folder / "proc/net/dev").write_text("a\nb\n lo: 0 0 0 0 0 0 0 0 0 0\n")
        (folder / "groups").mkdir()
        (folder / "cgroups.json").write_text(json.dumps({"unified": str(folder / "groups")}))

    def start(self, uid: str, quota: str = "max") -> None:
        group = self.folder / "groups" / uid / "main"
        group.mkdir(parents=True)
        (group / "cpu.max").write_text(f"{quota} 100000\n")

    def quota(self, uid: str) -> str:
        return (self.folder / "groups" / uid / "main/cpu.max").read_text().split()[0]

    def pass_second(self, agent: Agent, host: float, cores: Mapping[str, float]) -> None:
        """Let a second pass in which so much of the host, and so many cores of containers, were used."""
        self.at += 1
        self.busy += host * CORES
        (self.folder / "proc/stat").write_text(f"cpu {round(self.busy * TICKS)} 0 0 0 0 0 0 0\n")
        for uid, used in cores.items():
            self.used[uid] = self.used.get(uid, 0.0) + used
            stat = self.folder / "groups" / uid / "main/cpu.stat"
            stat.write_text(f"usage_usec {round(self.used[uid] * 1e6)}\nnr_periods {round(self.at * 10)}\n")
        agent.sampler.sample(self.at, agent.groups())

    async def pass_round(self, agent: Agent, host: float, cores: Mapping[str, float]) -> list[Action]:
        since = self.at
        for _ in range(5):
            self.pass_second(agent, host, cores)
        return await agent.decide(since)


def pod(name: str, priority: int, limit: str = "", workload: str = "training") -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"limits": {"cpu": limit}} if limit else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"strato.io/workload": workload}},
        "spec": {"nodeName": NODE, "containers": [container], "priorityClassName": f"p{priority}"},
    }


@asynccontextmanager
async def world(
    tmp_path: Path, pods: list[dict[str, Any]]
) -> AsyncIterator[tuple[Harness, Kernel, Agent, dict[str, str]]]:
    async with Harness(nodes=f"1x{CORES}cpu,64Gi", scheduler=False, controllers=()) as harness:
        node = next(iter((await harness.cluster.list(Node)).items)).metadata.name
        kernel, uids = Kernel(tmp_path), {}
        for priority in {one["spec"]["priorityClassName"] for one in pods}:
            body = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": priority},
                "value": int(priority[1:]),
            }
            await harness.cluster.create(catalog.PRIORITYCLASS, body)
        for one in pods:
            one["spec"]["nodeName"] = node
            made = await harness.cluster.create(catalog.POD, one, "default")
            name = one["metadata"]["name"]
            uids[name] = made["metadata"]["uid"]
            limit = one["spec"]["containers"][0]["resources"].get("limits", {}).get("cpu")
            kernel.start(uids[name], str(int(limit) * 100_000) if limit else "max")
            await harness.eventually(lambda name=name: harness.pod(name).status.phase == "Running")
        options = AgentOptions(
            node=node, namespace="default", cpus=CORES, proc=str(tmp_path / "proc"), sys=str(tmp_path / "sys")
        )
        yield harness, kernel, await new_agent(harness, tmp_path, options), uids


async def new_agent(
    harness: Harness,
    tmp_path: Path,
    options: AgentOptions,
    layout: type[SandboxLayout] = SandboxLayout,
    clock: Clock | None = None,
) -> Agent:
    informers = harness.world.informers
    agent = Agent(
        harness.cluster,
        informers,
        clock or harness.clock,
        Random(1),
        layout(str(tmp_path / "cgroups.json")),
        options,
        Registry(),
    )
    agent._configs.add_batch_handler(harness._on_changes)
    harness.informer(Event)
    await agent.synced()
    agent.refresh_policy()
    return agent


def annotation(harness: Harness, name: str) -> dict[str, Any]:
    text = (harness.pod(name).metadata.annotations or {}).get(SUPPRESSED_CONTAINERS)
    return json.loads(text)["main"] if text else {}


async def test_the_worked_example_on_files_and_back(tmp_path: Path) -> None:
    pods = [pod("a", 1000), pod("b", 100), pod("c", 0, "8"), pod("d", 0, "5")]
    async with world(tmp_path, pods) as (harness, kernel, agent, uids):
        hot = {uids["a"]: 20.0, uids["b"]: 10.0, uids["c"]: 6.0, uids["d"]: 4.0}
        for _ in range(3):
            assert not [one for one in await kernel.pass_round(agent, 0.95, hot) if one.target]
            if agent.handlers.handlers["suppress"]._hot_rounds == 2:
                break
        await kernel.pass_round(agent, 0.95, hot)
        assert {name: kernel.quota(uids[name]) for name in "abcd"} == {
            "a": "max", "b": "max", "c": "300000", "d": "220000"
        }  # fmt: skip
        await harness.eventually(lambda: annotation(harness, "c") and annotation(harness, "d"))
        assert (annotation(harness, "c")["from"], annotation(harness, "c")["to"]) == ("8000", 3000)
        # each once: still hot, they are not cut again, B is
        calmer = hot | {uids["c"]: 3.0, uids["d"]: 2.2}
        await kernel.pass_round(agent, 0.95, calmer)
        assert kernel.quota(uids["c"]) == "300000"
        assert kernel.quota(uids["b"]) == "520000"

        # another agent continues from the annotations and gives everything back
        other = await new_agent(harness, tmp_path, agent.options)
        cool = dict.fromkeys(hot, 1.0)
        for _ in range(60):
            await kernel.pass_round(other, 0.5, cool)
        assert {name: kernel.quota(uids[name]) for name in "abcd"} == {
            "a": "max", "b": "max", "c": "800000", "d": "500000"
        }  # fmt: skip
        await harness.eventually(lambda: not any(annotation(harness, name) for name in "abcd"))


class Instant:
    """A clock on which waiting takes no time."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


async def test_a_running_agent_samples_and_decides_until_it_is_cancelled(tmp_path: Path) -> None:
    async with world(tmp_path, []) as (harness, kernel, first, _):
        kernel.pass_second(first, 0.5, {})
        agent = await new_agent(harness, tmp_path, first.options, clock=Instant())
        running = asyncio.create_task(agent.run())
        try:
            async with asyncio.timeout(20):
                while agent.sampler.host.memory.mean_since(0) is None:  # read for a decision
                    await asyncio.sleep(0)
            assert agent.sampler.host.cpu.mean_since(0) is not None
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait((running,))


@pytest.mark.parametrize(("kind", "is_less"), [(ActionKind.TRAFFIC, True), (ActionKind.EVENT, False)])
async def test_less_traffic_is_asked_for_where_an_action_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ActionKind, is_less: bool
) -> None:
    async with world(tmp_path, [pod("a", 0, workload="online")]) as (_, kernel, agent, uids):
        agent.policy = replace(agent.policy, webhook=WebhookOptions(url="http://127.0.0.1:9/weights"))
        monkeypatch.setattr(agent.handlers, "decide", lambda _: [Action(kind=kind, target="cpu", value=0.95)])
        await kernel.pass_round(agent, 0.95, {uids["a"]: 20.0})
        assert agent._traffic.is_relieved("cpu") is not is_less
        await agent._traffic.close()


async def test_nothing_is_kept_of_a_pod_that_went(tmp_path: Path) -> None:
    async with world(tmp_path, [pod("a", 0, "8")]) as (harness, _, agent, _uids):
        writer = QuotaWriter(harness.cluster, SandboxLayout(str(tmp_path / "cgroups.json")), agent._events)
        [facts] = facts_of(harness.pod("a"))
        cut = Action(kind=ActionKind.SET_QUOTA, target=facts.key, value=4000, reason=SUPPRESSED)
        state = RoundState(utilisation=0.95, used_cores=8)
        assert await writer.apply([cut], {facts.key: facts}, {facts.key: state}, 1.0) == [cut]
        assert (writer.holds(facts.key), len(writer._annotations)) == (True, 1)
        assert writer.verify([], {}) == []
        assert (writer.holds(facts.key), len(writer._annotations)) == (False, 0)


async def test_who_is_cut_gives_way_until_it_is_given_back(tmp_path: Path) -> None:
    guaranteed = pod("g", 0, "8")
    guaranteed["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1Gi"
    async with world(tmp_path, [pod("a", 0), pod("b", 1000), guaranteed]) as (harness, kernel, agent, uids):
        for uid in uids.values():
            for folder in (tmp_path / "groups" / uid, tmp_path / "groups" / uid / "main"):
                (folder / "cpu.weight").write_text("39\n")
                (folder / "cpu.idle").write_text("0\n")

        def idle(name: str) -> list[str]:
            return [
                (tmp_path / "groups" / uids[name] / file).read_text().strip() for file in ("cpu.idle", "main/cpu.idle")
            ]

        use = {uids["a"]: 20.0, uids["b"]: 15.0, uids["g"]: 8.0}
        for _ in range(5):
            await kernel.pass_round(agent, 0.99, use)
        assert "max" not in [kernel.quota(uids[name]) for name in "ab"]
        assert kernel.quota(uids["g"]) == "400000"
        assert {name: idle(name) for name in "abg"} == {"a": ["1", "1"], "b": ["0", "0"], "g": ["0", "0"]}
        await harness.eventually(lambda: annotation(harness, "a").get("podWeight") == 39)
        for _ in range(60):
            await kernel.pass_round(agent, 0.4, use)
        assert idle("a") == ["0", "0"]
        assert kernel.quota(uids["a"]) == "max"


async def test_quotas_of_others_are_written_anew_and_then_left(tmp_path: Path) -> None:
    async with world(tmp_path, [pod("a", 0, "8")]) as (harness, kernel, agent, uids):
        use = {uids["a"]: 8.0}
        for _ in range(4):
            await kernel.pass_round(agent, 0.95, use)
        assert kernel.quota(uids["a"]) == "400000"
        file = tmp_path / "groups" / uids["a"] / "main/cpu.max"
        for changed in (True, True, False, True, True, False):
            if changed:
                file.write_text("800000 100000\n")
            await kernel.pass_round(agent, 0.85, use)
            assert kernel.quota(uids["a"]) == "400000"
        for _ in range(3):
            file.write_text("800000 100000\n")
            await kernel.pass_round(agent, 0.85, use)
        assert kernel.quota(uids["a"]) == "800000", "three rounds running: it is somebody else's"
        await harness.eventually(lambda: _has_event(harness, "QuotaConflict"))


async def test_a_cut_by_resize_follows_the_one_before(tmp_path: Path) -> None:
    body = pod("a", 0, "8")
    body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    async with world(tmp_path, [body]) as (harness, _, agent, _uids):
        writer = QuotaWriter(harness.cluster, SandboxLayout(str(tmp_path / "cgroups.json")), agent._events)
        writer.backend = "resize"
        for milli in (4000, 2000):
            [facts] = facts_of(harness.pod("a"))
            cut = Action(kind=ActionKind.SET_QUOTA, target=facts.key, value=milli, reason=SUPPRESSED)
            state = RoundState(utilisation=0.95, used_cores=8)
            assert await writer.apply([cut], {facts.key: facts}, {facts.key: state}, 1.0) == [cut]
            await harness.eventually(lambda milli=milli: facts_of(harness.pod("a"))[0].base_milli == milli)
            [facts] = facts_of(harness.pod("a"))
            assert writer.verify([facts], {facts.key: Quota(milli, 0.1)}) == []
            assert not writer.is_given_up(facts)


async def _refuse() -> bool:
    raise Unavailable("the server is busy")


async def _has_event(harness: Harness, reason: str) -> bool:
    events = await harness.cluster.list(catalog.EVENT, "default")
    return any(one["reason"] == reason for one in events.items)


async def test_gaps_and_vanished_groups_are_no_error_and_no_decision(tmp_path: Path) -> None:
    async with world(tmp_path, [pod("a", 0), pod("b", 0)]) as (_, kernel, agent, uids):
        use = {uids["a"]: 20.0, uids["b"]: 10.0}
        for _ in range(2):
            await kernel.pass_round(agent, 0.99, use)
        kernel.at += 60
        since = kernel.at
        kernel.pass_second(agent, 0.99, use)
        assert await agent.decide(since) == []
        for file in (tmp_path / "groups" / uids["a"] / "main").iterdir():
            file.unlink()
        del use[uids["a"]]
        for _ in range(4):
            await kernel.pass_round(agent, 0.99, use)
        assert kernel.quota(uids["b"]) == "500000"
        (tmp_path / "proc/stat").unlink()
        assert not [one for one in await agent.decide(kernel.at) if one.kind is ActionKind.SET_QUOTA]


async def test_a_bad_policy_leaves_the_old_one_and_is_reported(tmp_path: Path) -> None:
    async with world(tmp_path, [pod("a", 0)]) as (harness, _, agent, _uids):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strato-agent", "namespace": "default"}}
        good = {"policy.yaml": "handlers: {burst: {enabled: false}}"}
        await harness.cluster.create(catalog.CONFIGMAP, {**config, "data": good}, "default")

        def in_force() -> list[str]:
            agent.refresh_policy()
            return list(agent.policy.handlers)

        await harness.eventually(lambda: in_force() == ["suppress", "hotspots"])
        bad = {"data": {"policy.yaml": "handlers: {suppress: {overload: 2}}"}}
        await harness.cluster.patch(catalog.CONFIGMAP, "strato-agent", "default", bad)

        async def is_reported() -> bool:
            agent.refresh_policy()
            return await _has_event(harness, "PolicyInvalid")

        await harness.eventually(is_reported)
        assert in_force() == ["suppress", "hotspots"]


async def test_memory_cordons_within_a_budget_and_a_person_s_cordon_is_kept(tmp_path: Path) -> None:
    async with world(tmp_path, [pod("a", 0)]) as (harness, kernel, agent, uids):
        use = {uids["a"]: 1.0}
        node = agent.options.node
        (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 50 kB\n")
        await agent.act_on_node(Action(kind=ActionKind.CORDON, target="memory", message="memory at 95%"), {})

        async def hotspot() -> list[str]:
            (found,) = [
                one
                for one in (await harness.cluster.get(catalog.NODE, node))["status"]["conditions"]
                if one["type"] == "MemoryHotspot"
            ]
            return [found[member] for member in ("status", "reason", "message")]

        assert (await harness.cluster.get(catalog.NODE, node))["spec"]["unschedulable"] is True
        assert await hotspot() == ["True", "MemoryHot", "memory at 95%"]
        await agent.act_on_node(Action(kind=ActionKind.UNCORDON, target="memory"), {})
        assert await hotspot() == ["False", "MemoryCool", "memory has cooled down"]
        assert not (await harness.cluster.get(catalog.NODE, node))["spec"].get("unschedulable")
        await harness.cluster.patch(catalog.NODE, node, "", {"spec": {"unschedulable": True}})
        for kind in (ActionKind.CORDON, ActionKind.UNCORDON):
            await agent.act_on_node(Action(kind=kind, target="memory"), {})
        assert (await harness.cluster.get(catalog.NODE, node))["spec"]["unschedulable"] is True
        await kernel.pass_round(agent, 0.5, use)


async def test_an_uncordon_that_the_api_refuses_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, [pod("a", 0)]) as (harness, kernel, agent, uids):
        use, node = {uids["a"]: 1.0}, agent.options.node
        await agent.act_on_node(Action(kind=ActionKind.CORDON, target="memory", message="memory at 95%"), {})
        opened = [Action(kind=ActionKind.UNCORDON, target="memory")]
        monkeypatch.setattr(agent.handlers, "decide", lambda _: opened.copy())
        monkeypatch.setattr(agent._cordons, "uncordon", _refuse)
        for _ in range(2):
            await kernel.pass_round(agent, 0.5, use)
            opened.clear()
        monkeypatch.undo()
        assert (await harness.cluster.get(catalog.NODE, node))["spec"]["unschedulable"] is True
        await kernel.pass_round(agent, 0.5, use)
        found = await harness.cluster.get(catalog.NODE, node)
        assert not found["spec"].get("unschedulable")
        assert [one["status"] for one in found["status"]["conditions"] if one["type"] == "MemoryHotspot"] == ["False"]


async def test_reset_gives_everything_back(tmp_path: Path) -> None:
    pods = [pod("a", 0, "8"), pod("b", 0), pod("untouched", 0, "2", workload="online")]
    async with world(tmp_path, pods) as (harness, kernel, agent, uids):
        for _ in range(4):
            await kernel.pass_round(agent, 0.95, {uids["a"]: 8.0, uids["b"]: 8.0, uids["untouched"]: 1.0})
        await harness.eventually(lambda: annotation(harness, "a") and annotation(harness, "b"))
        assert not annotation(harness, "untouched")
        other = await new_agent(harness, tmp_path, agent.options)
        assert await other.reset() == 2
        assert {name: kernel.quota(uids[name]) for name in uids} == {"a": "800000", "b": "max", "untouched": "200000"}
        await harness.eventually(lambda: not annotation(harness, "a") and not annotation(harness, "b"))
        assert await other.reset() == 0, "nothing is cut any more"


async def test_a_condition_keeps_the_time_of_its_last_change(tmp_path: Path) -> None:
    async with world(tmp_path, []) as (harness, _, agent, _uids):
        node = agent.options.node

        async def report(*, is_true: bool, message: str) -> dict[str, Any]:
            await harness.clock.sleep(10)
            await report_condition(
                harness.cluster, harness.clock, node, "Warm", is_true=is_true, reason="R", message=message
            )
            found = await harness.cluster.get(catalog.NODE, node)
            return next(one for one in found["status"]["conditions"] if one["type"] == "Warm")

        first = await report(is_true=True, message="one")
        assert await report(is_true=True, message="one") == first, "nothing to say is not written"
        second = await report(is_true=True, message="two")
        assert second["lastTransitionTime"] == first["lastTransitionTime"] < second["lastHeartbeatTime"]
        third = await report(is_true=False, message="two")
        assert third["lastTransitionTime"] == third["lastHeartbeatTime"] > second["lastHeartbeatTime"]


async def test_best_effort_pods_share_a_quota_for_as_long_as_the_policy_wants_it(tmp_path: Path) -> None:
    group = tmp_path / "besteffort"
    group.mkdir()
    (group / "cpu.max").write_text("max 100000\n")

    class Grouped(SandboxLayout):
        def best_effort(self) -> ControlGroup:
            return ControlGroup(str(group), str(group), str(group), is_unified=True)

    def quota() -> str:
        return (group / "cpu.max").read_text().split()[0]

    async with world(tmp_path, [pod("a", 0)]) as (harness, kernel, first, uids):
        agent = await new_agent(harness, tmp_path, first.options, Grouped)
        metadata = {"name": "strato-agent", "namespace": "default"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        text = "handlers: {bestEffort: {}, suppress: {enabled: false}}"
        await harness.cluster.create(catalog.CONFIGMAP, {**config, "data": {"policy.yaml": text}}, "default")

        def has(name: str) -> bool:
            agent.refresh_policy()
            return name in agent.policy.handlers

        await harness.eventually(lambda: has("bestEffort"))
        for _ in range(3):
            await kernel.pass_round(agent, 0.5, {uids["a"]: 4.0})
        # 65 % of 48 cores less the 20 that others use
        assert abs(int(quota()) - 1_120_000) <= 0.01 * CORES * 100_000
        await harness.cluster.patch(catalog.CONFIGMAP, "strato-agent", "default", {"data": {"policy.yaml": ""}})
        await harness.eventually(lambda: not has("bestEffort"))
        await kernel.pass_round(agent, 0.5, {uids["a"]: 4.0})
        assert quota() == "max"
