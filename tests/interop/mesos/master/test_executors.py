"""Custom executors: launched with their first task, spoken to over their own stream, paid for once."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from strato.interop.mesos.master.agents import UnitFacts
from strato.interop.mesos.master.executors import ExecutorRefused
from strato.interop.mesos.resourcetext import to_text
from strato.interop.mesos.wire import message
from tests.interop.mesos.worlds import Listener, World, task

EXECUTOR = {"executor_id": {"value": "e"}, "command": {"value": "run"}, "resources": task()["resources"]}
UUID = base64.b64encode(bytes(range(16))).decode()


class ExecutorStream(Listener):
    """An executor's end."""

    def send(self, event: dict[str, Any]) -> None:
        kind = message("executor.Event")
        assert kind.from_protobuf(kind.to_protobuf(event)) == kind.from_value(event)
        self.events.append(event)


def _launched(*names: str) -> tuple[World, Any, Listener, Any]:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    world.launch(framework, listener, *(task(name, executor=EXECUTOR) for name in names))
    listener.take()
    return world, framework, listener, world.state.agents["S0"].executors[framework.id, "e"]


def _subscribe(world: World, executor: Any) -> ExecutorStream:
    stream = ExecutorStream()
    world.master.executors.subscribe(executor, {}, stream, world.now)
    return stream


def _say(world: World, executor: Any, name: str, state: str, uuid: str = UUID) -> None:
    status = {"task_id": {"value": name}, "state": state, "uuid": uuid, "source": "SOURCE_EXECUTOR"}
    world.master.executors.update(executor, {"status": status}, world.now)
    world.run()


def test_tasks_of_one_executor_are_one_pod_and_what_it_does_not_ask_for_is_held() -> None:
    world, _, _, _ = _launched("a", "b")
    [launch] = world.launched.values()
    assert to_text(launch.resources) == "cpus:2; mem:128"
    world.master.created(launch.unit)
    assert to_text(world.master.offers.held(world.state.agents["S0"])) == "cpus:1; mem:64"


def test_what_was_launched_waits_for_the_executor_to_subscribe() -> None:
    world, framework, _, executor = _launched("a", "b")
    stream = _subscribe(world, executor)
    assert stream.kinds == ["SUBSCRIBED", "LAUNCH", "LAUNCH"]
    subscribed = stream.events[0]["subscribed"]
    assert subscribed["framework_info"]["id"] == {"value": framework.id}
    assert subscribed["executor_info"]["executor_id"] == {"value": "e"}
    assert subscribed["agent_info"]["id"] == {"value": "S0"}


def test_updates_reach_the_framework_and_acknowledgements_the_executor() -> None:
    world, framework, listener, executor = _launched("a")
    stream = _subscribe(world, executor)
    _say(world, executor, "a", "TASK_RUNNING")
    _say(world, executor, "a", "TASK_RUNNING")  # again, as its acknowledgement is late: a duplicate
    [event] = listener.take("UPDATE")
    status = event["update"]["status"]
    assert (status["state"], status["uuid"], status["executor_id"]) == ("TASK_RUNNING", UUID, {"value": "e"})
    world.call(framework, "ACKNOWLEDGE", **{name: status[name] for name in ("task_id", "agent_id", "uuid")})
    assert stream.events[-1] == {"type": "ACKNOWLEDGED", "acknowledged": {"task_id": {"value": "a"}, "uuid": UUID}}
    assert not listener.take("UPDATE")


def test_messages_go_both_ways() -> None:
    world, framework, listener, executor = _launched("a")
    stream = _subscribe(world, executor)
    world.call(framework, "MESSAGE", agent_id={"value": "S0"}, executor_id={"value": "e"}, data="aGk=")
    assert stream.events[-1] == {"type": "MESSAGE", "message": {"data": "aGk="}}
    world.master.executors.forward(executor, "eW8=")
    [event] = listener.take("MESSAGE")
    assert event["message"] == {"agent_id": {"value": "S0"}, "executor_id": {"value": "e"}, "data": "eW8="}


def test_a_kill_is_the_executors_to_carry_out() -> None:
    world, framework, _, executor = _launched("a")
    stream = _subscribe(world, executor)
    world.call(framework, "KILL", task_id={"value": "a"})
    assert stream.events[-1] == {"type": "KILL", "kill": {"task_id": {"value": "a"}}}
    assert not world.killed


def test_a_task_that_its_executor_never_got_is_killed_at_once() -> None:
    world, framework, listener, executor = _launched("a", "b")
    world.call(framework, "KILL", task_id={"value": "a"})
    [event] = listener.take("UPDATE")
    status = event["update"]["status"]
    assert (status["state"], status["reason"]) == ("TASK_KILLED", "REASON_TASK_KILLED_DURING_LAUNCH")
    stream = _subscribe(world, executor)
    assert [event["launch"]["task"]["name"] for event in stream.take("LAUNCH")] == ["b"]


def test_when_an_executor_ends_its_tasks_have_failed_and_its_room_is_free() -> None:
    world, _framework, listener, executor = _launched("a", "b")
    _subscribe(world, executor)
    _say(world, executor, "a", "TASK_FINISHED")
    listener.take()
    [unit] = world.launched
    world.master.observe(unit, UnitFacts("uid", (), is_ended=True, exit_status=256, why="no such file"), world.now)
    world.run()
    kinds = {event["type"]: event for event in listener.take()}
    assert kinds["UPDATE"]["update"]["status"]["state"] == "TASK_FAILED"
    assert kinds["UPDATE"]["update"]["status"]["reason"] == "REASON_EXECUTOR_TERMINATED"
    assert kinds["UPDATE"]["update"]["status"]["message"] == "Executor terminated with status 256: no such file"
    assert kinds["FAILURE"]["failure"] == {"agent_id": {"value": "S0"}, "executor_id": {"value": "e"}, "status": 256}
    for _ in range(6):
        world.advance()
    [offer] = world.offers(listener)
    assert offer["resources"][0]["scalar"]["value"] == 4
    assert "executor_ids" not in offer


def test_another_executor_under_the_same_id_is_refused() -> None:
    world, framework, listener, _ = _launched("a")
    for _ in range(5):
        world.advance()
    other = {**EXECUTOR, "command": {"value": "other"}}
    assert world.launch(framework, listener, task("b", executor=other)) == []
    [event] = listener.take("UPDATE")
    assert event["update"]["status"]["message"].startswith("ExecutorInfo is not compatible with existing ExecutorInfo")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"type": "SUBSCRIBE", "framework_id": {"value": "x"}, "executor_id": {"value": "e"}, "subscribe": {}},
         "Framework cannot be found"),
        ({"type": "SUBSCRIBE", "framework_id": {"value": "m-0000"}, "executor_id": {"value": "x"}, "subscribe": {}},
         "Executor cannot be found"),
        ({"type": "UPDATE", "framework_id": {"value": "m-0000"}, "executor_id": {"value": "e"}},
         "Failed to validate Executor::Call: Expecting 'update' to be present"),
        ({"framework_id": {"value": "m-0000"}, "executor_id": {"value": "e"}},
         "Failed to validate Executor::Call: Expecting 'type' to be present"),
    ],
)  # fmt: skip
def test_calls_of_nobody_are_refused(call: dict[str, Any], text: str) -> None:
    world, _, _, _ = _launched("a")
    with pytest.raises(ExecutorRefused) as caught:
        world.master.executors.find(call)
    assert str(caught.value) == text


def test_staging_and_bad_ids_are_no_updates() -> None:
    world, _, _, executor = _launched("a")
    for state, uuid in (("TASK_STAGING", UUID), ("TASK_RUNNING", "AAAA")):
        with pytest.raises(ExecutorRefused, match="Failed to validate Executor::Call"):
            _say(world, executor, "a", state, uuid)
