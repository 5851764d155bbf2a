"""ACCEPT: tasks, groups, executors, reservations; what is wrong with each is said."""

from __future__ import annotations

from typing import Any

import pytest

from strato.interop.mesos.resourcetext import to_text
from tests.interop.mesos.worlds import World, task


def _updates(listener: Any) -> list[tuple[str, str, str, str]]:
    statuses = [event["update"]["status"] for event in listener.take("UPDATE")]
    return [(s["task_id"]["value"], s["state"], s.get("reason", ""), s.get("message", "")) for s in statuses]


def test_a_task_becomes_a_pod_and_what_is_left_is_offered_after_its_filter() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    [unit] = world.launch(framework, listener, task())
    launch = world.launched[unit]
    assert (launch.agent_id, launch.role, to_text(launch.resources)) == ("S0", "*", "cpus:1; mem:64")
    for _ in range(5):
        world.advance()
    [offer] = world.offers(listener)
    assert [r["scalar"]["value"] for r in offer["resources"]] == [3, 4032]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (task(""), "ID must not be empty"),
        (task("a/b"), "'a/b' contains invalid characters"),
        (task(".."), "'..' is disallowed"),
        (task("x" * 256), "ID must not be greater than 255 characters"),
        (task(agent="S9"), "Task uses invalid agent S9 while agent S0 is expected"),
        (task(resources={}), "Task uses no resources"),
        (task(executor={"executor_id": {"value": "e"}, "command": {"value": "x"}}, command={"value": "x"}),
         "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"),
        (task(executor={"type": "DEFAULT", "executor_id": {"value": "e"}}), "'ExecutorInfo.type' must be 'CUSTOM'"),
        (task(executor={"executor_id": {"value": "e"}}), "'ExecutorInfo.command' must be set"),
        (task(resources={"cpus": 1, "gpus": 0.5}), "The 'gpus' resource must be an unsigned integer"),
        (task(resources={"cpus": 8}),
         "Total resources cpus:8 required by task and its executor is more than available cpus:4; mem:4096"),
        (task(limits={"disk": {"value": 1}}), "Resource limits may only be set for 'cpus' and 'mem', not for 'disk'"),
        (task(limits={"cpus": {"value": 0.5}}), "Task's 'cpus' limit 0.5 is less than its request 1.0"),
    ],
)  # fmt: skip
def test_a_bad_task_is_an_error_and_the_rest_go_on(info: dict[str, Any], text: str) -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    units = world.launch(framework, listener, info, task("good"))
    [(_, state, reason, message)] = _updates(listener)
    assert (state, reason, message) == ("TASK_ERROR", "REASON_TASK_INVALID", text)
    assert [world.launched[unit].tasks[0]["name"] for unit in units] == ["good"]


def test_ids_are_free_again_only_after_the_last_acknowledgement() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    [unit] = world.launch(framework, listener, task())
    world.observe(unit, "TASK_FINISHED")
    [event] = listener.take("UPDATE")
    world.advance(5)
    assert world.launch(framework, listener, task()) == []
    assert _updates(listener)[0][3] == "Task has duplicate ID: t"
    world.call(framework, "ACKNOWLEDGE", task_id={"value": "t"}, agent_id={"value": "S0"},
               uuid=event["update"]["status"]["uuid"])  # fmt: skip
    world.advance(5)
    assert len(world.launch(framework, listener, task())) == 1


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], "No offers specified"),
        (["nope"], "Offer nope is no longer valid"),
        (["first", "first"], "Duplicate offer m-O0 in offer list"),
        (["first", "second"], "Aggregated offers must belong to one single agent"),
    ],
)
def test_invalid_offers_lose_their_tasks(ids: list[str], text: str) -> None:
    world = World()
    world.agent("S0")
    world.agent("S1")
    framework, listener = world.subscribe()
    world.advance()
    offers = world.offers(listener)
    names = {"first": offers[0]["id"]["value"], "second": offers[1]["id"]["value"]}
    text = text.replace("m-O0", names["first"])
    operation = {"type": "LAUNCH", "launch": {"task_infos": [task()]}}
    given = [{"value": names.get(name, name)} for name in ids]
    world.call(framework, "ACCEPT", offer_ids=given, operations=[operation])
    [(_, state, reason, message)] = _updates(listener)
    assert (state, reason) == ("TASK_LOST", "REASON_INVALID_OFFERS")
    assert message.startswith(f"Task launched with invalid offers: {text}")
    assert not world.launched
    assert not {names[name] for name in ids if name in names} & framework.offers.keys()


def test_partition_aware_frameworks_hear_dropped() -> None:
    world = World()
    framework, listener = world.subscribe(capabilities=[{"type": "PARTITION_AWARE"}])
    operation = {"type": "LAUNCH", "launch": {"task_infos": [task()]}}
    world.call(framework, "ACCEPT", offer_ids=[{"value": "x"}], operations=[operation])
    assert _updates(listener)[0][1] == "TASK_DROPPED"


def test_an_operation_id_on_launch_is_an_error() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    world.advance()
    [offer] = world.offers(listener)
    operation = {"type": "LAUNCH", "id": {"value": "o"}, "launch": {"task_infos": [task()]}}
    world.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=[operation])
    assert _updates(listener)[0][3] == "The `id` field cannot be set on LAUNCH operations"


def _group(*tasks: Any, kind: str = "DEFAULT") -> dict[str, Any]:
    executor = {"type": kind, "executor_id": {"value": "x"}, "resources": task()["resources"]}
    return {"type": "LAUNCH_GROUP", "launch_group": {"executor": executor, "task_group": {"tasks": list(tasks)}}}


def test_a_group_is_one_pod_all_or_nothing() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    world.advance()
    [offer] = world.offers(listener)
    world.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=[_group(task("a"), task("b"))])
    [launch] = world.launched.values()
    assert launch.is_group
    assert to_text(launch.resources) == "cpus:3; mem:192"
    for _ in range(6):
        world.advance()
    [offer] = world.offers(listener)
    world.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=[_group(task("c"), task("d", agent="S9"))])
    assert {update[:3] for update in _updates(listener)} == {
        ("c", "TASK_ERROR", "REASON_TASK_GROUP_INVALID"), ("d", "TASK_ERROR", "REASON_TASK_GROUP_INVALID"),
    }  # fmt: skip
    assert len(world.launched) == 1


def test_reserve_create_and_launch_in_one_call() -> None:
    world = World()
    world.agent("S0", "cpus:4;mem:4096;disk:1000")
    framework, listener = world.subscribe(
        roles=["r"], capabilities=[{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}], principal="p"
    )
    world.advance()
    [offer] = world.offers(listener)
    reservation = [{"type": "DYNAMIC", "role": "r", "principal": "p"}]
    disk = {"name": "disk", "type": "SCALAR", "scalar": {"value": 100}, "reservations": reservation}
    cpus = {"name": "cpus", "type": "SCALAR", "scalar": {"value": 2}, "reservations": reservation}
    volume = {**disk, "disk": {"persistence": {"id": "v1"}, "volume": {"container_path": "data", "mode": "RW"}}}
    used = {**cpus, "scalar": {"value": 1}}
    operations = [
        {"type": "RESERVE", "id": {"value": "o1"}, "reserve": {"resources": [disk, cpus]}},
        {"type": "CREATE", "create": {"volumes": [volume]}},
        {"type": "LAUNCH", "launch": {"task_infos": [{**task(), "resources": [used, volume]}]}},
    ]
    world.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=operations)
    assert len(world.launched) == 1, listener.events
    [event] = listener.take("UPDATE_OPERATION_STATUS")
    assert event["update_operation_status"]["status"]["state"] == "OPERATION_FINISHED"
    world.advance()  # what was reserved and not used is offered at once, without a filter
    [offer] = world.offers(listener)
    assert [r["scalar"]["value"] for r in offer["resources"] if r.get("reservations")] == [1]


def test_an_offer_that_shrinks_away_is_rescinded() -> None:
    """Another scheduler's pod came in between."""
    world = World()
    world.agent()
    _, listener = world.subscribe()
    world.advance()
    world.agent("S0", "cpus:1;mem:1024")
    assert listener.kinds[-1] == "RESCIND"


def test_nothing_is_offered_of_a_node_that_is_not_ready() -> None:
    world = World()
    world.agent("S0", is_ready=False)
    _, listener = world.subscribe()
    world.advance()
    assert not world.offers(listener)
    world.agent("S0")
    world.advance()
    assert len(world.offers(listener)) == 1
