"""The shadow beside a scheduler: what it publishes, that it changes nothing there, and that no fault of it matters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.client.local import LocalCluster
from strato.clock import SystemClock, VirtualClock, run_virtual
from strato.errors import InvalidInput
from strato.metrics import Registry
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import TOGGLES, Plugin
from strato.scheduler.model.plan import Plan
from strato.scheduler.shadow.publishing import from_config_map, published, to_config_map
from strato.scheduler.shadow.service import Decisions, Shadow, ShadowOptions, check
from tests.scheduler import worlds
from tests.scheduler.shadow.test_evaluation import BINPACK, NO_GANG, NOW, PLAIN, TWO_NODES
from tests.scheduler.test_properties import GREEDY, some_world
from tests.scheduler.test_service import create, nodes_of, running


def with_plugin(plugin: type[Plugin]) -> Config:
    option = PluginOption(plugin.name, plugin, None, dict.fromkeys(TOGGLES, True))
    return Config(("allocate",), ((option,), *default_config().tiers))


class Looping(Plugin):
    """Never comes back."""

    name = "looping"

    def job_order(self, job: Any) -> Any:
        while True:
            pass


class Exiting(Plugin):
    """Ends its process."""

    name = "exiting"

    def job_order(self, job: Any) -> Any:
        raise SystemExit(1)


def test_differences_are_published() -> None:
    async def story(clock: VirtualClock) -> None:
        shadow = ShadowOptions(config=parse_config(NO_GANG))
        async with running(clock, config=parse_config(PLAIN), shadow=shadow) as (cluster, scheduler):
            pods = [worlds.pod(f"g-{i}", "gang") for i in range(3)]
            await create(cluster, worlds.node("n1", cpu="2"), worlds.group("gang", 3), *pods)
            await clock.sleep(20)
            (summary,) = await published(cluster)
            found = {(one.job, one.change, one.pods) for one in summary.differences}
            assert ("ns/gang", "would-start", 2) in found
            assert summary.compared > 0
            assert summary.failed == 0
            assert set((await nodes_of(cluster)).values()) == {""}  # nothing of it is applied
            assert scheduler.world.nodes.size == 1

    clock = VirtualClock()
    run_virtual(clock, story(clock))


@pytest.mark.parametrize("plugin", [Looping, Exiting], ids=["loops", "exits"])
def test_a_faulty_policy_is_reported_and_the_scheduler_goes_on(plugin: type[Plugin]) -> None:
    async def story(clock: VirtualClock) -> None:
        shadow = ShadowOptions(config=with_plugin(plugin), timeout_seconds=0.2)
        async with running(clock, config=parse_config(PLAIN), shadow=shadow) as (cluster, _):
            await create(cluster, *TWO_NODES[1:3], worlds.pod("a", scheduler="default-scheduler"))
            await clock.sleep(2)
            await create(cluster, worlds.pod("b", scheduler="default-scheduler"))
            await clock.sleep(20)
            assert all((await nodes_of(cluster)).values())
            (summary,) = await published(cluster)
            assert summary.failed > 0
            assert "gave no answer" in summary.problem

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_configuration_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "shadow.yaml"
    file.write_text(PLAIN)

    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=parse_config(PLAIN), shadow=ShadowOptions(config=file)) as (cluster, _):
            pods = [worlds.pod(f"g-{i}", "gang") for i in range(3)]
            await create(cluster, worlds.node("n1", cpu="2"), worlds.group("gang", 3), *pods)
            await clock.sleep(20)
            assert (await published(cluster))[0].differences == []
            file.write_text(NO_GANG)
            await clock.sleep(20)
            assert [one.change for one in (await published(cluster))[0].differences] == ["would-start"]
            file.write_text("actions: nonsense")
            await clock.sleep(20)
            (summary,) = await published(cluster)
            assert "not taken" in summary.problem
            file.write_text("\n")
            await clock.sleep(20)
            (summary,) = await published(cluster)
            assert (summary.policy, summary.differences, summary.problem) == ("none", [], "")
            file.write_text(NO_GANG)
            await clock.sleep(20)
            assert [one.change for one in (await published(cluster))[0].differences] == ["would-start"]

    clock = VirtualClock()
    run_virtual(clock, story(clock))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), second=st.sampled_from([GREEDY, PLAIN, BINPACK]))
def test_world_is_as_before(seed: int, second: str) -> None:
    """Whatever the shadow decides: the scheduler's world, caches and memory are untouched."""
    world = worlds.world(*some_world(seed))
    plan = worlds.cycle(world, GREEDY)

    def state() -> tuple[Any, ...]:
        versions = world.version, world.schedulable_generation, dict(world.dirty_jobs), dict(world.changed)
        return worlds.fingerprint(world), versions, {key: job.phase for key, job in world.jobs.items()}

    async def main() -> tuple[Any, ...]:
        found = Decisions(lambda: True, lambda: plan.verdicts, lambda: 0, lambda: None)
        cluster: Any = None
        clock = VirtualClock()
        shadow = Shadow(ShadowOptions(config=parse_config(second)), "volcano", world, found, cluster, clock, Registry())
        before = state()
        await shadow.evaluate(parse_config(second), plan, NOW)
        assert shadow.summary().compared == 1, shadow.summary().problem
        return before

    before = asyncio.run(main())
    assert state() == before


def test_nothing_is_decided_while_the_scheduler_works() -> None:
    world = worlds.world(*TWO_NODES)
    registry = Registry()

    async def story(clock: VirtualClock) -> None:
        idle = False
        found = Decisions(lambda: idle, dict, lambda: 0, lambda: None)
        cluster: Any = None
        shadow = Shadow(ShadowOptions(config=default_config()), "volcano", world, found, cluster, clock, registry)
        task = asyncio.ensure_future(shadow.evaluate_all())
        for _ in range(3):
            shadow.decided(Plan(), NOW)
            await clock.sleep(10)
        assert shadow.summary().compared == 0
        idle = True
        await clock.sleep(10)
        assert (shadow.summary().compared, shadow.summary().skipped) == (1, 2)
        task.cancel()

    clock = VirtualClock()
    run_virtual(clock, story(clock))
    text = registry.render().decode()
    assert 'strato_shadow_cycles_total{outcome="compared"} 1.0' in text
    assert 'strato_shadow_cycles_total{outcome="skipped"} 2.0' in text


def test_a_decision_is_compared_though_later_cycles_decide_nothing() -> None:
    world = worlds.world(*TWO_NODES)
    plan = worlds.cycle(world, PLAIN)
    assert plan.binds

    async def story(clock: VirtualClock) -> None:
        idle = False
        found = Decisions(lambda: idle, dict, lambda: 0, lambda: None)
        cluster: Any = None
        options = ShadowOptions(config=parse_config(BINPACK))
        shadow = Shadow(options, "volcano", world, found, cluster, clock, Registry())
        task = asyncio.ensure_future(shadow.evaluate_all())
        for one in (plan, Plan(), Plan()):
            shadow.decided(one, NOW)
            await clock.sleep(10)
        idle = True
        await clock.sleep(10)
        assert [found.change for found in shadow.summary().differences] == ["other-node"]
        task.cancel()

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_evaluation_lets_others_go_on_in_real_time() -> None:
    world = worlds.world(*TWO_NODES)

    async def main() -> None:
        found = Decisions(lambda: True, dict, lambda: 0, lambda: None)
        cluster: Any = None
        options = ShadowOptions(config=with_plugin(Looping), timeout_seconds=0.3)
        shadow = Shadow(options, "volcano", world, found, cluster, SystemClock(), Registry())
        turns = 0
        evaluating = asyncio.ensure_future(shadow.evaluate(with_plugin(Looping), Plan(), NOW))
        while not evaluating.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 3
        assert shadow.summary().failed == 1

    asyncio.run(main())


def test_a_bad_policy_does_not_stop_the_scheduler(tmp_path: Path) -> None:
    file = tmp_path / "shadow.yaml"
    file.write_text("actions: nonsense")

    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=parse_config(PLAIN), shadow=ShadowOptions(config=file)) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.pod("a", scheduler="default-scheduler"))
            await clock.sleep(10)
            assert await nodes_of(cluster) == {"a": "n1"}
            (summary,) = await published(cluster)
            assert "nonsense" in summary.problem
            file.write_text(PLAIN)
            await clock.sleep(10)
            (summary,) = await published(cluster)
            assert (summary.problem, summary.compared) == ("", 1)

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_policies_that_ask_others_are_refused() -> None:
    config = parse_config(
        "actions: allocate\ntiers:\n- plugins:\n  - name: extender\n    arguments: {extender.urlPrefix: 'http://x'}\n"
    )
    with pytest.raises(InvalidInput, match="extender"):
        check(config)


def test_a_strange_config_map_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"(?s)strato-shadow-x.*summary.json"):
        from_config_map({"metadata": {"name": "strato-shadow-x"}, "data": {"summary.json": "{"}})


def test_summary_survives_the_config_map() -> None:
    world = worlds.world(*TWO_NODES)
    found = Decisions(lambda: True, dict, lambda: 0, lambda: None)
    cluster: LocalCluster = None  # type: ignore[assignment]  # its type changes
    shadow = Shadow(ShadowOptions(config=default_config()), "v", world, found, cluster, VirtualClock(), Registry())
    summary = shadow.summary()
    assert from_config_map(to_config_map(summary)) == summary
