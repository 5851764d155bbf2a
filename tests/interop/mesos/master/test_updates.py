"""Updates: one in flight, in order, again until acknowledged; reconciliation; kills; lost agents."""

from __future__ import annotations

from typing import Any

import pytest

from strato.interop.mesos.master import records
from strato.interop.mesos.master.agents import Observed, UnitFacts
from tests.interop.mesos.worlds import Listener, World, task


def _running(world: World, **info: Any) -> tuple[Any, Listener, str]:
    world.agent()
    framework, listener = world.subscribe(**info)
    [unit] = world.launch(framework, listener, task())
    listener.take()
    return framework, listener, unit


def _statuses(listener: Listener) -> list[dict[str, Any]]:
    return [event["update"]["status"] for event in listener.take("UPDATE")]


def _ack(world: World, framework: Any, status: dict[str, Any]) -> None:
    world.call(framework, "ACKNOWLEDGE", **{name: status[name] for name in ("task_id", "agent_id", "uuid")})


def test_the_next_update_waits_for_the_acknowledgement() -> None:
    world = World()
    framework, listener, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    world.observe(unit, "TASK_FINISHED", message="Command exited with status 0")
    [running] = _statuses(listener)
    assert (running["state"], running["executor_id"], running["source"]) == (
        "TASK_RUNNING", {"value": "t"}, "SOURCE_EXECUTOR",
    )  # fmt: skip
    _ack(world, framework, running)
    [finished] = _statuses(listener)
    assert finished["state"] == "TASK_FINISHED"
    assert framework.tasks
    _ack(world, framework, finished)
    assert not framework.tasks
    assert world.forgotten == [unit]


def test_an_update_is_sent_again_after_ten_seconds_and_then_ever_later() -> None:
    world = World()
    _, listener, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    [first] = _statuses(listener)
    times = []
    for second in range(1, 75):
        world.advance()
        if _statuses(listener):
            times.append(second)
    assert times == [10, 30, 70]
    world.advance(100)
    assert [status["uuid"] for status in _statuses(listener)] == [first["uuid"]]


def test_other_acknowledgements_change_nothing() -> None:
    world = World()
    framework, listener, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    [running] = _statuses(listener)
    _ack(world, framework, {**running, "uuid": "AAAAAAAAAAAAAAAAAAAAAA=="})
    _ack(world, framework, {**running, "agent_id": {"value": "S9"}})
    _ack(world, framework, {**running, "task_id": {"value": "other"}})
    assert framework.tasks["t"].pending


def test_resources_return_before_the_acknowledgement() -> None:
    world = World()
    _, listener, unit = _running(world)
    world.observe(unit, "TASK_FAILED")
    for _ in range(6):
        world.advance()
    [offer] = world.offers(listener)
    assert offer["resources"][0]["scalar"]["value"] == 4


def test_a_framework_that_comes_back_hears_what_it_missed() -> None:
    world = World()
    framework, listener, unit = _running(world, failover_timeout=100)
    world.master.disconnect(listener, world.now)
    world.observe(unit, "TASK_RUNNING")
    again = Listener()
    world.subscribe(at=again, framework_id=framework.id, failover_timeout=100)
    assert [status["state"] for status in _statuses(again)] == ["TASK_RUNNING"]


@pytest.mark.parametrize("exit_state", ["TASK_FINISHED", "TASK_FAILED"])
def test_a_kill_makes_killed_of_every_end(exit_state: str) -> None:
    world = World()
    framework, listener, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    _ack(world, framework, _statuses(listener)[0])
    world.call(framework, "KILL", task_id={"value": "t"})
    assert [(kill.unit, kill.grace_seconds) for kill in world.killed] == [(unit, 3.0)]
    world.observe(unit, exit_state, is_deleting=True)
    assert [status["state"] for status in _statuses(listener)] == ["TASK_KILLED"]


def test_kills_only_shorten_the_grace() -> None:
    world = World()
    framework, _, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    for seconds in (5, 9, 1):
        policy = {"grace_period": {"nanoseconds": seconds * 10**9}}
        world.call(framework, "KILL", task_id={"value": "t"}, kill_policy=policy)
    assert [kill.grace_seconds for kill in world.killed] == [5.0, 1.0]


def test_killing_is_said_to_those_who_know_the_state() -> None:
    world = World()
    framework, listener, unit = _running(world, capabilities=[{"type": "TASK_KILLING_STATE"}])
    world.observe(unit, "TASK_RUNNING")
    _ack(world, framework, _statuses(listener)[0])
    world.call(framework, "KILL", task_id={"value": "t"})
    assert [status["state"] for status in _statuses(listener)] == ["TASK_KILLING"]


@pytest.mark.parametrize(
    ("asked", "aware", "state", "text"),
    [
        ({"task_id": {"value": "t"}}, False, "TASK_STAGING", "Latest task state"),
        ({"task_id": {"value": "x"}}, False, "TASK_LOST", "Task is unknown"),
        ({"task_id": {"value": "x"}}, True, "TASK_UNKNOWN", "Task is unknown"),
        ({"task_id": {"value": "x"}, "agent_id": {"value": "S0"}}, True, "TASK_GONE", "Task is unknown to the agent"),
    ],
)
def test_reconciliation(asked: dict[str, Any], aware: bool, state: str, text: str) -> None:
    world = World()
    capabilities = [{"type": "PARTITION_AWARE"}] if aware else []
    framework, listener, _ = _running(world, capabilities=capabilities)
    world.call(framework, "RECONCILE", tasks=[asked])
    [status] = _statuses(listener)
    assert (status["state"], status["message"]) == (state, f"Reconciliation: {text}")
    assert (status["reason"], status["source"]) == ("REASON_RECONCILIATION", "SOURCE_MASTER")
    assert "uuid" not in status


def test_implicit_reconciliation_lists_what_is_active() -> None:
    world = World()
    framework, listener, _ = _running(world)
    world.call(framework, "RECONCILE", tasks=[])
    assert [status["task_id"]["value"] for status in _statuses(listener)] == ["t"]


def test_killing_an_unknown_task_is_answered_like_reconciliation() -> None:
    world = World()
    framework, listener, _ = _running(world)
    world.call(framework, "KILL", task_id={"value": "x"})
    assert [status["state"] for status in _statuses(listener)] == ["TASK_LOST"]


def test_a_lost_node_makes_its_tasks_unreachable_until_it_is_back() -> None:
    world = World()
    framework, listener, unit = _running(world, capabilities=[{"type": "PARTITION_AWARE"}])
    world.observe(unit, "TASK_RUNNING")
    _ack(world, framework, _statuses(listener)[0])
    world.agent("S0", is_ready=False)
    assert [event["type"] for event in listener.events] == ["UPDATE", "FAILURE"]
    assert _statuses(listener)[0]["state"] == "TASK_UNREACHABLE"
    world.call(framework, "RECONCILE", tasks=[{"task_id": {"value": "t"}}])
    assert [status["state"] for status in _statuses(listener)] == ["TASK_UNREACHABLE"]
    world.agent("S0")
    assert [status["state"] for status in _statuses(listener)] == ["TASK_RUNNING"]
    for _ in range(6):
        world.advance()
    [offer] = world.offers(listener)
    assert offer["resources"][0]["scalar"]["value"] == 3


def test_a_node_that_is_gone_takes_its_tasks_with_it() -> None:
    world = World()
    _, listener, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    listener.take()
    world.master.remove_agent("S0", world.now)
    assert [event["type"] for event in listener.events] == ["FAILURE"]  # the update waits for an acknowledgement


def test_what_is_kept_makes_the_same_task_and_the_same_update() -> None:
    """A master that starts anew goes on with the id that an unacknowledged update had."""
    world = World()
    framework, listener, unit = _running(world)
    world.observe(unit, "TASK_RUNNING")
    [before] = _statuses(listener)
    text = records.encode(records.unit_record(world.state.units[unit], None))
    kept_framework = records.framework_record(framework)

    import msgspec

    later = World()
    record = msgspec.json.decode(text, type=records.UnitRecord)
    restored = records.restored_framework(
        msgspec.json.decode(records.encode(kept_framework), type=records.FrameworkRecord)
    )
    later.master.frameworks.restore(restored, later.now)
    later.master.restore_unit(unit, record)
    later.agent()
    again = Listener()
    later.subscribe(at=again, framework_id=framework.id)
    seen = UnitFacts(f"uid-{unit}", (Observed("TASK_RUNNING"),))
    later.master.observe(unit, seen, later.now)
    [after] = _statuses(again)
    assert after["uuid"] == before["uuid"]
    for _ in range(6):
        later.advance()
    [offer] = later.offers(again)
    assert offer["resources"][0]["scalar"]["value"] == 3
    _ack(later, restored, after)
    kept = records.unit_record(later.state.units[unit], None)
    assert kept.tasks[0].state == "TASK_RUNNING"
