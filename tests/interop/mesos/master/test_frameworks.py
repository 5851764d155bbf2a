"""Frameworks come, are refused, fail over, go away and are removed in time."""

from __future__ import annotations

import pytest

from strato.interop.mesos.master.frameworks import UpdateRefused
from tests.interop.mesos.worlds import Listener, World, task

MULTI = [{"type": "MULTI_ROLE"}]


def test_a_framework_subscribes_and_gets_all_that_is_free() -> None:
    world = World()
    world.agent("S0", "cpus:4;mem:4096;ports:[31000-32000]")
    framework, listener = world.subscribe()
    world.advance()
    assert listener.kinds == ["SUBSCRIBED", "HEARTBEAT", "OFFERS"]
    assert listener.events[0]["subscribed"]["heartbeat_interval_seconds"] == 15
    assert framework.id == "m-0000"
    [offer] = world.offers(listener)
    assert "allocation_info" not in offer
    assert [(r["name"], r["role"]) for r in offer["resources"]] == [("cpus", "*"), ("mem", "*"), ("ports", "*")]


def test_offers_of_multi_role_frameworks_say_their_role() -> None:
    world = World()
    world.agent()
    _, listener = world.subscribe(roles=["a"], capabilities=[*MULTI, {"type": "RESERVATION_REFINEMENT"}])
    world.advance()
    [offer] = world.offers(listener)
    assert offer["allocation_info"] == {"role": "a"}
    assert {r["allocation_info"]["role"] for r in offer["resources"]} == {"a"}
    assert not any("role" in resource for resource in offer["resources"])


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"role": "a", "capabilities": MULTI},
         "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"),
        ({"roles": ["a"]}, "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"),
        ({"roles": ["a", "a"], "capabilities": MULTI}, "'FrameworkInfo.roles' contains duplicate items: a"),
        ({"roles": ["/a"], "capabilities": MULTI},
         "'FrameworkInfo.roles' contains invalid role: Role '/a' cannot start with a slash"),
        ({"role": ""}, "'FrameworkInfo.role' is not a valid role: Role names cannot be the empty string"),
        ({"failover_timeout": 1e19}, "The framework failover_timeout (1e+19) is invalid"),
        ({"role": "b"}, "Roles { b } are not present in the master's --roles"),
        ({"user": "root"}, "User 'root' is not allowed to run frameworks without --root_submissions set"),
    ],
)  # fmt: skip
def test_what_is_refused_is_an_error_on_the_stream(info: dict[str, object], text: str) -> None:
    world = World(roles=frozenset("a"), root_submissions=False)
    framework, listener = world.subscribe(**info)
    assert framework is None
    assert listener.events == [{"type": "ERROR", "error": {"message": text}}]
    assert listener.has_finished


def test_the_newcomer_wins() -> None:
    world = World()
    world.agent()
    framework, first = world.subscribe(failover_timeout=10)
    world.advance()
    second = Listener()
    again, _ = world.subscribe(at=second, framework_id=framework.id, failover_timeout=10)
    assert again is framework
    assert first.events[-1] == {"type": "ERROR", "error": {"message": "Framework failed over"}}
    assert first.has_finished
    world.master.disconnect(first, world.now)  # the old stream's end means nothing any more
    assert framework.is_connected
    world.advance()
    assert len(world.offers(second)) == 1


def test_a_framework_that_does_not_come_back_is_removed_with_its_tasks() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe(failover_timeout=60)
    [unit] = world.launch(framework, listener, task())
    world.observe(unit, "TASK_RUNNING")
    world.master.disconnect(listener, world.now)
    world.advance(59)
    assert not world.killed
    world.advance(1)
    assert [kill.unit for kill in world.killed] == [unit]
    refused, late = world.subscribe(framework_id=framework.id)
    assert refused is None
    assert late.events == [{"type": "ERROR", "error": {"message": "Framework has been removed"}}]


def test_without_failover_timeout_the_end_of_the_stream_is_the_end() -> None:
    world = World()
    framework, listener = world.subscribe()
    world.master.disconnect(listener, world.now)
    assert framework.id not in world.state.frameworks


def test_a_framework_that_came_back_is_not_removed_by_the_old_timer() -> None:
    world = World()
    framework, listener = world.subscribe(failover_timeout=60)
    world.master.disconnect(listener, world.now)
    world.advance(30)
    world.subscribe(framework_id=framework.id, failover_timeout=60)
    world.advance(40)
    assert framework.id in world.state.frameworks


def test_an_unknown_id_is_taken_as_it_is() -> None:
    world = World()
    framework, _ = world.subscribe(framework_id="of-an-earlier-master")
    assert framework.id == "of-an-earlier-master"


def test_offers_go_back_when_the_stream_ends() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe(failover_timeout=60)
    world.advance()
    assert framework.offers
    world.master.disconnect(listener, world.now)
    assert not framework.offers
    _, other = world.subscribe()
    world.advance()
    assert len(world.offers(other)) == 1


def test_user_and_checkpoint_stay_on_a_new_subscription() -> None:
    world = World()
    framework, _ = world.subscribe(failover_timeout=9, checkpoint=True)
    world.subscribe(framework_id=framework.id, user="other", name="new", failover_timeout=9)
    assert (framework.info["user"], framework.info["checkpoint"], framework.info["name"]) == ("u", True, "new")


def test_update_framework_changes_roles_and_refuses_what_cannot_change() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe(roles=["a"], capabilities=MULTI)
    world.advance()
    info = {"user": "u", "name": "n", "id": {"value": framework.id}, "roles": ["b"], "capabilities": MULTI}
    world.master.frameworks.update(framework, {"framework_info": info}, world.now)
    assert framework.roles == ("b",)
    assert [event["type"] for event in listener.events[-1:]] == ["RESCIND"]
    with pytest.raises(UpdateRefused, match=r"^FrameworkInfo update is not valid: Updating 'FrameworkInfo.user'"):
        world.master.frameworks.update(framework, {"framework_info": {**info, "user": "x"}}, world.now)


def test_suppressed_roles_get_nothing_until_revived() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    world.call(framework, "SUPPRESS")
    world.advance(2)
    assert not world.offers(listener)
    world.call(framework, "REVIVE")
    world.advance()
    assert len(world.offers(listener)) == 1


def test_declined_room_comes_again_after_its_filter() -> None:
    world = World()
    world.agent()
    framework, listener = world.subscribe()
    world.advance()
    [offer] = world.offers(listener)
    world.call(framework, "DECLINE", offer_ids=[offer["id"]])
    for _ in range(4):
        world.advance()
        assert not world.offers(listener)
    world.advance()
    assert len(world.offers(listener)) == 1


def test_hoarded_offers_are_rescinded() -> None:
    world = World(offer_timeout_seconds=30.0)
    world.agent()
    hoarder, listener = world.subscribe()
    world.advance()
    [offer] = world.offers(listener)
    world.advance(31)
    assert [event["type"] for event in listener.events] == ["RESCIND", "OFFERS"]
    assert listener.events[0]["rescind"]["offer_id"] == offer["id"]
    assert hoarder.offers.keys() != {offer["id"]["value"]}
