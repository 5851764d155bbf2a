"""What operators read and change."""

from __future__ import annotations

from typing import Any

import pytest

from strato.interop.mesos.master import pages, views
from strato.interop.mesos.master.operators import OperatorRefused
from strato.interop.mesos.wire import JSON, PROTOBUF, enum_names, message
from tests.interop.mesos.worlds import Listener, World, task

TOO_MUCH = {"role": "a", "guarantees": {"cpus": {"value": 99}}}
READS = sorted(name for name in enum_names("master.Call.Type") if name.startswith("GET_"))


def _busy() -> tuple[World, Any, Listener]:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    [unit] = world.launch(framework, listener, task(labels={"labels": [{"key": "a", "value": "b"}]}))
    world.observe(unit, "TASK_RUNNING")
    world.advance()
    world.advance(6)
    return world, framework, listener


@pytest.mark.parametrize("kind", READS)
def test_every_getter_answers_a_message_of_its_type(kind: str) -> None:
    world, _, _ = _busy()
    shown = views.answer(world.state, {"type": kind}, world.now)
    assert shown is not None
    response = message("master.Response")
    assert response.from_value(shown).keys() == shown.keys()
    response.check_required(shown)
    assert response.decode(response.encode(shown, PROTOBUF), PROTOBUF)["type"] == kind
    response.decode(response.encode(shown, JSON), JSON)


def test_old_pages_count_in_maps() -> None:
    world, framework, _ = _busy()
    state = pages.whole_state(world.state)
    [slave], [shown] = state["slaves"], state["frameworks"]
    assert slave["used_resources"] == {"cpus": 1.0, "gpus": 0, "mem": 64.0, "disk": 0}
    assert slave["offered_resources"]["cpus"] == 3.0
    assert (shown["id"], shown["role"], shown["active"]) == (framework.id, "*", True)
    [shown_task] = shown["tasks"]
    assert (shown_task["state"], shown_task["slave_id"], shown_task["executor_id"]) == ("TASK_RUNNING", "S0", "")
    assert pages.summary(world.state)["slaves"][0]["TASK_RUNNING"] == 1
    assert [each["id"] for each in pages.tasks(world.state, {"limit": ["1"]})["tasks"]] == ["t"]
    assert pages.tasks(world.state, {"task_id": ["other"]})["tasks"] == []
    assert [role["name"] for role in pages.roles(world.state)["roles"]] == ["*"]


def test_weights_rescind_the_offers_of_all() -> None:
    world, _, listener = _busy()
    listener.take()
    infos = [{"role": "x", "weight": 2}]
    world.master.operators.call({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": infos}}, world.now)
    assert not listener.events
    world.master.operators.update_weights([{"role": "*", "weight": 2}])
    assert listener.kinds == ["RESCIND"]
    assert views.weights_view(world.state)["weight_infos"] == [
        {"role": "*", "weight": 2.0},
        {"role": "x", "weight": 2.0},
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": [{"role": "a", "weight": 0}]}},
         "Weights must be positive"),
        ({"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [{"role": "a/b"}]}},
         "Updating quota on nested role 'a/b' is not supported"),
        ({"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [TOO_MUCH]}}, "more than the cluster's"),
        ({"type": "TEARDOWN", "teardown": {"framework_id": {"value": "x"}}}, "No framework found with ID x"),
        ({"type": "MARK_AGENT_GONE", "mark_agent_gone": {"agent_id": {"value": "x"}}}, "Agent x not found"),
        ({"type": "READ_FILE", "read_file": {"path": "x", "offset": 0}}, "Call READ_FILE is not supported"),
        ({"type": "GROW_VOLUME", "grow_volume": {}}, "Expecting 'agent_id' to be present"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(call: dict[str, Any], text: str) -> None:
    world, _, _ = _busy()
    with pytest.raises(OperatorRefused) as caught:
        world.master.operators.call(call, world.now)
    assert text in str(caught.value)


def test_a_limit_bounds_what_a_role_is_offered() -> None:
    world = World()
    world.agent()
    config = {"role": "r", "limits": {"cpus": {"value": 1}}}
    world.master.operators.call({"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [config]}}, world.now)
    _, listener = world.subscribe(role="r")
    world.advance()
    [offer] = world.offers(listener)
    assert [r["scalar"]["value"] for r in offer["resources"] if r["name"] == "cpus"] == [1]
    assert views.quota_view(world.state)["status"]["configs"] == [config]


def test_draining_kills_and_marks_gone_when_empty() -> None:
    world, framework, listener = _busy()
    [unit] = world.launched
    body = {"agent_id": {"value": "S0"}, "max_grace_period": {"seconds": 1}, "mark_gone": True}
    world.master.operators.call({"type": "DRAIN_AGENT", "drain_agent": body}, world.now)
    world.run()
    assert [(kill.unit, kill.grace_seconds) for kill in world.killed] == [(unit, 1.0)]
    for status in [event["update"]["status"] for event in listener.take("UPDATE")][:1]:
        world.call(framework, "ACKNOWLEDGE", **{name: status[name] for name in ("task_id", "agent_id", "uuid")})
    world.observe(unit, "TASK_FAILED", is_deleting=True)
    status = listener.take("UPDATE")[-1]["update"]["status"]
    assert (status["state"], status["reason"]) == ("TASK_KILLED", "REASON_AGENT_DRAINING")
    world.call(framework, "ACKNOWLEDGE", **{name: status[name] for name in ("task_id", "agent_id", "uuid")})
    world.advance()
    assert "S0" not in world.state.agents
    world.agent("S0")
    assert "S0" not in world.state.agents, "an agent that is gone does not come back"


def test_maintenance_asks_frameworks_to_leave() -> None:
    world, framework, listener = _busy()
    window = {"machine_ids": [{"hostname": "S0"}], "unavailability": {"start": {"nanoseconds": 10**18}}}
    call = {"type": "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule": {"schedule": {"windows": [window]}}}
    world.master.operators.call(call, world.now)
    world.advance()
    [event] = listener.take("INVERSE_OFFERS")
    [asked] = event["inverse_offers"]["inverse_offers"]
    assert asked["unavailability"] == window["unavailability"]
    world.call(framework, "ACCEPT_INVERSE_OFFERS", inverse_offer_ids=[asked["id"]])
    assert not framework.inverse_offers
    assert views.maintenance_status(world.state)["status"]["draining_machines"] == [
        {"id": {"hostname": "S0", "ip": "10.0.0.1"}}
    ]


def test_operators_who_watch_are_sent_what_changes() -> None:
    class Watcher(Listener):
        def send(self, event: dict[str, Any]) -> None:
            kind = message("master.Event")
            assert kind.from_protobuf(kind.to_protobuf(event)).keys() == event.keys()
            self.events.append(event)

    world = World()
    watcher = Watcher()
    world.state.listeners[watcher] = None
    world.agent()
    framework, listener = world.subscribe()
    [unit] = world.launch(framework, listener, task())
    world.observe(unit, "TASK_RUNNING")
    world.call(framework, "TEARDOWN")
    world.master.remove_agent("S0", world.now)
    assert watcher.kinds == [
        "AGENT_ADDED", "FRAMEWORK_ADDED", "TASK_ADDED", "TASK_UPDATED", "FRAMEWORK_REMOVED", "AGENT_REMOVED",
    ]  # fmt: skip


def test_pages_show_what_is_reserved_for_whom() -> None:
    """Reservations count against quota whether they are used or not; a role that has nothing else is one."""
    world = World()
    world.agent("S0", "cpus:4;mem:4096;cpus(r):2;mem(r):100")
    world.agent("S1", "cpus:1;cpus(r):1")
    framework, listener = world.subscribe(role="r")
    world.launch(framework, listener, task())
    shown = {slave["id"]: slave for slave in pages.slaves(world.state)["slaves"]}
    assert shown["S0"]["reserved_resources"] == {"r": {"cpus": 2, "gpus": 0, "mem": 100, "disk": 0}}
    assert shown["S0"]["unreserved_resources"]["cpus"] == 4
    [role] = [each for each in pages.roles(world.state)["roles"] if each["name"] == "r"]
    assert role["reserved"]["cpus"] == 3
    world.call(framework, "TEARDOWN")
    [role] = [each for each in pages.roles(world.state)["roles"] if each["name"] == "r"]
    assert (role["frameworks"], role["quota"]["consumed"]) == ([], {"cpus": 3, "mem": 100})
