"""The allocator: who is offered what, beyond what the tables of cases ask."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from strato.errors import InvariantError
from strato.interop.mesos.allocator import Allocator, AllocatorOptions, Offered
from strato.interop.mesos.books import Order
from strato.interop.mesos.constraints import AttributeConstraint, OfferConstraints, Predicate
from strato.interop.mesos.maintenance import InverseOfferStatus
from strato.interop.mesos.quota import Quota
from strato.interop.mesos.resources import NOTHING, DiskInfo, Reservation, ResourceKind, Resources
from strato.interop.mesos.resourcetext import parse
from strato.interop.mesos.specs import (
    AgentId,
    AgentSpec,
    Domain,
    FrameworkId,
    FrameworkSpec,
    Unavailability,
)

A, B = FrameworkId("a"), FrameworkId("b")
ONE, TWO = AgentId("one"), AgentId("two")


def allocator(**options: Any) -> Allocator:
    return Allocator(AllocatorOptions(**options), random.Random(1))


def agent(text: str = "cpus:4;mem:4096", **more: Any) -> AgentSpec:
    return AgentSpec("host", parse(text), **more)


def framework(*roles: str, capabilities: tuple[str, ...] = (), **more: Any) -> FrameworkSpec:
    return FrameworkSpec(roles or ("*",), capabilities=frozenset(capabilities), **more)


def world(spec: AgentSpec | None = None, *frameworks: FrameworkSpec, **options: Any) -> Allocator:
    made = allocator(**options)
    made.add_agent(ONE, spec or agent())
    for name, one in zip((A, B), frameworks, strict=False):
        made.add_framework(name, one)
    return made


def offers(offered: Offered) -> dict[tuple[str, str, str], Resources]:
    return {(one.framework, one.role, one.agent): one.resources for one in offered.offers}


def give_back(made: Allocator, offered: Offered, now: float, refuse_seconds: float | None = None) -> None:
    for one in offered.offers:
        made.recover_resources(
            one.framework, one.agent, one.role, one.resources, now=now, refuse_seconds=refuse_seconds
        )


# --- fairness


def test_the_example_of_the_paper_on_dominant_resource_fairness() -> None:
    """Of 9 CPUs and 18 GB, tasks of <1 CPU, 4 GB> and <3 CPUs, 1 GB> get 3 and 2 (NSDI 2011, section 4.1)."""
    made = world(agent("cpus:9;mem:18432"), framework("a"), framework("b"))
    tasks, demands = {A: 0, B: 0}, {A: parse("cpus:1;mem:4096"), B: parse("cpus:3;mem:1024")}
    for second in range(1, 20):
        for one in made.allocate(float(second)).offers:
            demand = demands[one.framework]
            fits = one.resources.contains(demand)
            tasks[one.framework] += fits
            rest = one.resources - demand if fits else one.resources
            made.recover_resources(
                one.framework, ONE, one.role, rest, now=float(second), refuse_seconds=None if fits else 1000
            )
    assert tasks == {A: 3, B: 2}
    assert made.free(ONE) == parse("mem:4096")


def test_frameworks_of_a_role_and_roles_are_served_by_share() -> None:
    made = allocator()
    for name, role in ((A, "x"), (B, "x"), (FrameworkId("c"), "y")):
        made.add_framework(name, framework(role))
    for number in range(8):
        made.add_agent(AgentId(f"agent-{number}"), agent("cpus:1;mem:100"))
        made.allocate_pending(0.0)
    assert [len(made.held(name)) for name in (A, B, FrameworkId("c"))] == [2, 2, 4]


@pytest.mark.parametrize("order", [Order(random_roles=True), Order(random_frameworks=True)])
def test_random_orders_are_of_the_generator(order: Order) -> None:
    def served(seed: int) -> list[str]:
        made = Allocator(AllocatorOptions(order=order), random.Random(seed))
        for number in range(4):
            made.add_framework(FrameworkId(f"f{number}"), framework(f"r{number}" if order.random_roles else "r"))
        for number in range(12):
            made.add_agent(AgentId(f"agent-{number:02}"), agent())
        return [one.framework for one in made.allocate(1.0).offers]

    assert served(3) == served(3)
    assert len({tuple(served(seed)) for seed in range(5)}) > 1


# --- when runs are made


def test_changes_that_make_offers_possible_are_noted() -> None:
    made = allocator()
    made.add_framework(A, framework())
    assert made.has_pending
    assert not made.allocate_pending(0.0)
    made.add_agent(ONE, agent())
    assert offers(made.allocate_pending(0.0)) == {("a", "*", "one"): parse("cpus:4;mem:4096")}
    give_back(made, made.allocate_pending(0.0), 0.0)
    made.set_weight("*", 2.0)
    made.set_quota("q", Quota({"cpus": 1000}))
    made.suppress(A)
    made.deactivate_agent(ONE)
    made.activate_agent(ONE)
    made.update_agent(ONE, agent())
    assert not made.has_pending
    made.update_agent(ONE, agent("cpus:5;mem:4096"))
    assert made.has_pending


def test_triggers_before_a_run_are_merged_into_one() -> None:
    made = world(None, framework(), framework())
    made.add_agent(TWO, agent())
    assert len(made.allocate_pending(0.0).offers) == 2
    assert not made.has_pending


def test_recovered_resources_wait_for_the_batch() -> None:
    made = world(None, framework())
    give_back(made, made.allocate_pending(0.0), 0.0)
    assert not made.allocate_pending(0.5)
    assert made.allocate(1.0)


def test_an_agent_that_is_off_or_not_on_the_whitelist_is_not_offered() -> None:
    made = world(None, framework())
    made.deactivate_agent(ONE)
    assert not made.allocate(1.0)
    made.activate_agent(ONE)
    made.update_whitelist(["other"])
    assert not made.allocate(2.0)
    made.update_whitelist(["host"])
    assert made.allocate(3.0)


# --- who may be offered what


@pytest.mark.parametrize(
    ("spec", "capabilities", "roles", "is_offered"),
    [
        (agent("cpus:1;mem:99;gpus:1"), (), ("*",), False),
        (agent("cpus:1;mem:99;gpus:1"), ("GPU_RESOURCES",), ("*",), True),
        (agent(capabilities=frozenset()), ("MULTI_ROLE",), ("*",), False),
        (agent(capabilities=frozenset()), (), ("*",), True),
        (agent(capabilities=frozenset({"MULTI_ROLE"})), ("MULTI_ROLE",), ("a/b",), False),
        (agent(capabilities=frozenset({"MULTI_ROLE"})), ("MULTI_ROLE",), ("a",), True),
        (agent(domain=Domain("far")), (), ("*",), False),
        (agent(domain=Domain("far")), ("REGION_AWARE",), ("*",), True),
        (agent(domain=Domain("home", "zone")), (), ("*",), True),
    ],
)
def test_capabilities_hide_agents(
    spec: AgentSpec, capabilities: tuple[str, ...], roles: tuple[str, ...], is_offered: bool
) -> None:
    made = world(spec, framework(*roles, capabilities=capabilities), domain=Domain("home"))
    assert bool(made.allocate_pending(0.0)) is is_offered


def test_gpus_are_shown_to_all_where_the_flag_says_so() -> None:
    assert world(agent("cpus:1;mem:99;gpus:1"), framework(), filter_gpus=False).allocate_pending(0.0)


REFINED = (Reservation("a"), Reservation("a/b", dynamic=True))
SPECIAL = Resources.of(
    [
        (ResourceKind("cpus"), 1000),
        (ResourceKind("cpus", revocable=True), 2000),
        (ResourceKind("cpus", reservations=REFINED), 3000),
        (ResourceKind("disk", reservations=(Reservation("a"),), disk=DiskInfo("v"), shared=True), 4000),
    ]
)


@pytest.mark.parametrize(
    ("capabilities", "count"),
    [
        ((), 1),
        (("REVOCABLE_RESOURCES",), 2),
        (("RESERVATION_REFINEMENT",), 2),
        (("SHARED_RESOURCES",), 2),
        (("REVOCABLE_RESOURCES", "RESERVATION_REFINEMENT", "SHARED_RESOURCES"), 4),
    ],
)
def test_resources_that_a_framework_does_not_know_are_left_out(capabilities: tuple[str, ...], count: int) -> None:
    made = world(AgentSpec("host", SPECIAL), framework("a/b", capabilities=capabilities))
    (offer,) = made.allocate_pending(0.0).offers
    assert len(offer.resources) == count


def test_a_shared_volume_is_offered_to_several_once_a_run_each() -> None:
    volume = SPECIAL.shared()
    spec = AgentSpec("host", volume + parse("cpus:2;mem:64"))
    sharing = framework("a", capabilities=("SHARED_RESOURCES",), min_allocatable={"a": ()})
    made = world(spec, sharing, sharing)
    first = made.allocate_pending(0.0)
    assert list(offers(first).values()) == [spec.resources]
    second = made.allocate(1.0)
    assert [(one.framework, one.resources) for one in second.offers] == [("b", volume)]
    third = made.allocate(2.0)  # and again, while both hold it
    assert [one.resources for one in third.offers] == [volume]
    give_back(made, Offered(first.offers + second.offers + third.offers), 2.0)
    assert made.free(ONE) == spec.resources.non_shared()
    assert made.held(A) == made.held(B) == []


def test_revocable_resources_consume_no_quota_and_no_headroom() -> None:
    spec = AgentSpec("host", SPECIAL.revocable() + parse("mem:64"))
    made = world(spec, framework("q", capabilities=("REVOCABLE_RESOURCES",)))
    made.set_quota("q", Quota({}, {"cpus": 500, "mem": 1_000_000}))
    made.set_quota("other", Quota({"cpus": 5000}))
    assert list(offers(made.allocate_pending(0.0)).values()) == [spec.resources]
    assert made.quota_consumed("q") == {"mem": 64_000}


def test_offer_constraints_choose_agents() -> None:
    wants = OfferConstraints(((AttributeConstraint(Predicate.TEXT_EQUALS, "rack", operand="r2"),),))
    made = world(agent(attributes=(("rack", "r1"),)), framework("a", offer_constraints={"a": wants}))
    made.add_agent(TWO, agent(attributes=(("rack", "r2"),)))
    assert [one.agent for one in made.allocate_pending(0.0).offers] == [TWO]
    made.update_framework(A, framework("a"))
    assert [one.agent for one in made.allocate(1.0).offers] == [ONE]


@pytest.mark.parametrize(
    ("text", "minimum", "is_offered"),
    [
        ("cpus:0.01", None, True),
        ("mem:32", None, True),
        ("cpus:0.009;mem:31", None, False),
        ("disk:10000;ports:[1-9]", None, False),
        ("disk:1", (), True),
        ("cpus:1;ports:[1-2]", ({"cpus": 1000, "ports": 3000},), False),
        ("cpus:1;ports:[1-3]", ({"cpus": 1000, "ports": 3000},), True),
    ],
)
def test_the_minimum_is_one_alternative_of_quantities(
    text: str, minimum: tuple[dict[str, int], ...] | None, is_offered: bool
) -> None:
    own = {} if minimum is None else {"*": minimum}
    assert bool(world(agent(text), framework(min_allocatable=own)).allocate_pending(0.0)) is is_offered
    for_all = {} if minimum is None else {"min_allocatable": minimum}
    assert bool(world(agent(text), framework(), **for_all).allocate_pending(0.0)) is is_offered


# --- quota


def test_a_limit_holds_its_own_role_and_not_those_below_it() -> None:
    made = world(agent("cpus:8;mem:8192"), framework("q"), framework("q/below"))
    made.set_quota("q", Quota({}, {"cpus": 2000}))
    assert offers(made.allocate_pending(0.0)) == {
        ("a", "q", "one"): parse("cpus:2;mem:8192"),
        ("b", "q/below", "one"): parse("cpus:6"),
    }
    assert made.quota_consumed("q") == {"cpus": 8000, "mem": 8_192_000}


def test_a_guarantee_that_one_framework_has_met_is_no_others() -> None:
    made = world(agent("cpus:4;mem:4096"), framework("q"), framework("q"))
    made.set_quota("q", Quota({"cpus": 1000}, {"cpus": 1000, "mem": 1_000_000}))
    assert list(offers(made.allocate_pending(0.0)).values()) == [parse("cpus:1;mem:1000")]


@pytest.mark.parametrize("seed", range(8))
def test_what_both_stages_give_of_an_agent_is_one_offer(seed: int) -> None:
    """An agent that shrank makes memory look scarce until q2 has its own; if q1 was first, it gets the rest later."""
    made = Allocator(AllocatorOptions(), random.Random(seed))
    made.set_quota("q1", Quota({"cpus": 1000}))
    made.set_quota("q2", Quota({"mem": 1_000_000}))
    made.add_agent(ONE, agent("cpus:1;mem:1000;gpus:1"))
    made.add_agent(TWO, agent("mem:1000"))
    made.add_agent(AgentId("shrunk"), agent("mem:1000"), {(FrameworkId("c"), "other"): parse("mem:2000")})
    made.add_framework(A, framework("q1", capabilities=("GPU_RESOURCES",)))
    made.add_framework(B, framework("q2"))
    made_offers = made.allocate_pending(0.0).offers
    assert len(made_offers) == 2
    assert offers(Offered(made_offers)) == {
        ("a", "q1", "one"): parse("cpus:1;mem:1000;gpus:1"),
        ("b", "q2", "two"): parse("mem:1000"),
    }


def test_a_quota_that_goes_holds_nothing() -> None:
    made = world(agent(), framework("q"))
    made.set_quota("q", Quota({}, {"cpus": 0, "mem": 0}))
    assert not made.allocate_pending(0.0)
    made.set_quota("q", Quota())
    assert made.quotas() == {}
    assert made.allocate(1.0)


# --- changes


def test_reservations_change_what_an_agent_has_and_who_may_be_offered_it() -> None:
    made = world(agent("cpus:4;mem:4096"), framework("a"), framework("b"))
    ((_, offer),) = offers(made.allocate_pending(0.0)).items()
    reserved = parse("cpus(a):1")
    made.convert_held(A, ONE, "a", parse("cpus:1"), reserved)
    made.recover_resources(A, ONE, "a", offer - parse("cpus:1") + reserved, now=0.0)
    assert made.free(ONE) == parse("cpus:3;mem:4096;cpus(a):1")
    assert made.quota_consumed("a") == {"cpus": 1000}
    assert offers(made.allocate(1.0)) == {
        ("b", "b", "one"): parse("cpus:3;mem:4096"),
        ("a", "a", "one"): reserved,
    }


def test_an_operator_converts_what_is_free() -> None:
    made = world(agent("cpus:4;mem:4096"))
    made.convert_free(ONE, parse("cpus:1"), parse("cpus(a):1"))
    assert made.free(ONE) == parse("cpus:3;mem:4096;cpus(a):1")
    with pytest.raises(InvariantError, match="not free"):
        made.convert_free(ONE, parse("cpus:4"), parse("cpus(a):4"))


def test_what_is_not_held_cannot_come_back() -> None:
    made = world(None, framework())
    with pytest.raises(InvariantError, match="does not hold cpus:1 of agent one; it holds nothing"):
        made.recover_resources(A, ONE, "*", parse("cpus:1"), now=0.0)
    made.recover_resources(A, AgentId("gone"), "*", parse("cpus:1"), now=0.0)


def test_a_role_that_is_left_holds_on_to_what_it_has() -> None:
    made = world(None, framework("a", "b"))
    made.allocate_pending(0.0)
    ((_, role, resources),) = made.held(A)
    other = "b" if role == "a" else "a"
    made.update_framework(A, framework(other))
    made.add_agent(TWO, agent())
    assert [one.role for one in made.allocate(1.0).offers] == [other]
    made.recover_resources(A, ONE, role, resources, now=1.0)
    assert [one.role for one in made.allocate(2.0).offers] == [other]


def test_what_runs_of_a_framework_before_it_is_known_is_its_own() -> None:
    made = allocator()
    used = parse("cpus:3;mem:1024")
    made.add_agent(ONE, agent(), {(A, "x"): used})
    made.add_framework(B, framework("y"))
    made.add_framework(A, framework("x"))
    assert made.held(A) == [(ONE, "x", used)]
    assert offers(made.allocate_pending(0.0)) == {("b", "y", "one"): parse("cpus:1;mem:3072")}


def test_who_is_removed_leaves_all_it_held() -> None:
    made = world(None, framework(), framework())
    made.allocate_pending(0.0)
    made.remove_framework(A)
    assert made.free(ONE) == parse("cpus:4;mem:4096")
    assert [one.framework for one in made.allocate(1.0).offers] == [B]
    made.remove_agent(ONE)
    assert made.held(B) == []
    assert made.free(ONE) == NOTHING
    assert made.capacity() == {}


def test_an_agent_that_shrinks_below_what_is_held_has_nothing_free_until_enough_came_back() -> None:
    made = world(agent("cpus:4;mem:4096"), framework())
    made.allocate_pending(0.0)
    made.update_agent(ONE, agent("cpus:1;mem:4096"))
    made.recover_resources(A, ONE, "*", parse("cpus:2"), now=0.0)
    assert made.free(ONE) == NOTHING
    made.recover_resources(A, ONE, "*", parse("cpus:2"), now=0.0)
    assert made.free(ONE) == parse("cpus:1")


def test_late_calls_change_nothing() -> None:
    made = allocator()
    for call in (made.suppress, made.revive, made.remove_framework, made.activate_framework, made.deactivate_framework):
        call(A)
    made.update_framework(A, framework())
    made.update_agent(ONE, agent())
    made.remove_agent(ONE)
    made.update_unavailability(ONE, Unavailability(1.0))
    assert not made.has_pending


def test_a_weight_is_positive() -> None:
    with pytest.raises(ValueError, match="Weights must be positive"):
        allocator().set_weight("a", 0.0)


# --- refusals


def test_more_or_other_resources_pass_a_refusal() -> None:
    made = world(agent("cpus:2;mem:512"), framework())
    give_back(made, made.allocate_pending(0.0), 0.0, 1000)
    assert not made.allocate(1.0)
    made.update_agent(ONE, agent("cpus:1;mem:512"))
    assert not made.allocate(2.0)
    made.update_agent(ONE, agent("cpus:2;mem:512;disk:1"))
    assert made.allocate(3.0)


@pytest.mark.parametrize("end", ["revive", "attributes", "reconnect", "unsuppress", "new agent"])
def test_refusals_end_early(end: str) -> None:
    made = world(agent("cpus:2;mem:512"), framework("x"))
    give_back(made, made.allocate_pending(0.0), 0.0, 1000)
    assert not made.allocate(1.0)
    if end == "revive":
        made.revive(A, ["x"])
    elif end == "attributes":
        made.update_agent(ONE, agent("cpus:2;mem:512", attributes=(("k", "v"),)))
    elif end == "reconnect":
        made.deactivate_framework(A)
        made.activate_framework(A)
    elif end == "unsuppress":
        made.update_framework(A, framework("x", suppressed_roles=frozenset({"x"})))
        assert not made.allocate(2.0)
        made.update_framework(A, framework("x"))
    else:
        made.remove_agent(ONE)
        made.add_agent(ONE, agent("cpus:2;mem:512"))
    assert made.allocate(3.0)


def test_a_refusal_of_five_seconds_ends_before_the_batch_of_its_last_instant() -> None:
    made = world(None, framework())
    give_back(made, made.allocate_pending(0.0), 0.0, 5.0)
    assert [bool(made.allocate(float(second))) for second in range(1, 6)] == [False] * 4 + [True]


def test_a_short_refusal_outlives_the_next_batch() -> None:
    made = world(None, framework())
    give_back(made, made.allocate_pending(0.0), 0.0, 0.001)
    assert [bool(made.allocate(float(second))) for second in (1, 2)] == [False, True]
    give_back(made, made.allocate(2.0), 2.0, 0.0)
    assert not made.allocate_pending(2.0)


def test_roles_that_the_framework_does_not_have_are_passed_over() -> None:
    made = world(None, framework("x", "y"))
    made.suppress(A, ["x", "z"])
    assert [one.role for one in made.allocate_pending(0.0).offers] == ["y"]


# --- maintenance


def test_who_is_on_an_agent_that_will_be_away_is_asked_once() -> None:
    made = world(None, framework(), framework())
    made.allocate_pending(0.0)
    window = Unavailability(100.0, 60.0)
    made.update_unavailability(ONE, window)
    (asked,) = made.allocate_pending(0.0).inverse_offers
    assert (asked.framework, asked.agent, asked.unavailability) == (A, ONE, window)
    assert made.unavailability(ONE) == window
    assert made.inverse_offer_answers() == {ONE: {A: InverseOfferStatus.UNKNOWN}}
    assert not made.allocate(1.0)
    made.answer_inverse_offer(A, ONE, InverseOfferStatus.DECLINE, now=1.0)
    assert made.inverse_offer_answers() == {ONE: {A: InverseOfferStatus.DECLINE}}
    assert [bool(made.allocate(float(second))) for second in range(2, 7)] == [False] * 4 + [True]


def test_an_inverse_offer_is_made_anew_when_the_window_moves_or_the_framework_revives() -> None:
    made = world(None, framework())
    made.allocate_pending(0.0)
    made.update_unavailability(ONE, Unavailability(100.0))
    assert made.allocate_pending(0.0).inverse_offers
    made.answer_inverse_offer(A, ONE, InverseOfferStatus.ACCEPT, now=0.0, refuse_seconds=1000)
    made.revive(A)
    assert made.allocate_pending(1.0).inverse_offers
    made.update_unavailability(ONE, Unavailability(200.0))
    assert made.allocate_pending(1.0).inverse_offers
    made.update_unavailability(ONE, None)
    assert not made.allocate(2.0)
    assert made.inverse_offer_answers() == {}


# --- recovery


def test_with_quotas_a_new_master_waits_for_most_agents() -> None:
    made = allocator()
    made.set_quota("q", Quota({"cpus": 1000}))
    made.recover(5, now=0.0)
    made.add_framework(A, framework())
    for number in range(3):
        made.add_agent(AgentId(f"agent-{number}"), agent())
        assert not made.allocate(float(number))
    assert made.is_paused
    made.add_agent(ONE, agent())
    assert not made.is_paused
    assert len(made.allocate_pending(9.0).offers) == 4


def test_a_new_master_waits_ten_minutes_and_without_quotas_not_at_all() -> None:
    made = world(None, framework())
    made.recover(100, now=0.0)
    assert not made.is_paused
    made.set_quota("q", Quota({"cpus": 1000}))
    made.recover(100, now=0.0)
    assert not made.allocate(599.0)
    assert made.allocate(600.0)


def test_spec_that_is_replaced_keeps_what_is_held() -> None:
    made = world(None, framework())
    made.allocate_pending(0.0)
    made.update_agent(ONE, replace(agent(), hostname="other"))
    assert made.held(A)
    assert made.free(ONE) == NOTHING
