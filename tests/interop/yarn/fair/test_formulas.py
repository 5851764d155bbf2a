"""Shares, order and starvation: worked examples, and what holds of all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.yarn.fair import starvation
from strato.interop.yarn.fair.order import Standing, comparator, sort_key
from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.fair.shares import Claim, fair_shares
from strato.interop.yarn.resources import DOMINANT, MEMORY_ONLY, MOST

AMOUNT = st.integers(0, 1_000_000)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    least = draw(AMOUNT)
    most = draw(st.one_of(st.just(MOST), st.integers(0, 2_000_000)))
    weight = draw(st.sampled_from([0.0, 0.1, 0.25, 1.0, 2.0, 3.0, 8.0, 1000.0]))
    return Claim(weight, least, most, draw(st.booleans()))


@given(st.integers(0, 10_000_000), st.lists(claims(), max_size=8))
def test_shares_lie_within_bounds_and_use_up_what_there_is(total: int, given_claims: list[Claim]) -> None:
    shares = fair_shares(total, given_claims)
    for share, claim in zip(shares, given_claims, strict=True):
        assert 0 <= share <= max(claim.most, claim.least if claim.weight <= 0 else 0)
        if claim.active and claim.most > 0:
            assert share >= min(claim.least, claim.most if claim.weight > 0 else claim.least)
    free = [claim for claim in given_claims if claim.fixed is None]
    if free:
        minima = sum(min(claim.least, claim.most) for claim in free)
        fixed = sum(claim.fixed or 0 for claim in given_claims)
        bound = min(sum(claim.most for claim in free), max(total - fixed, 0))
        used = sum(share for share, claim in zip(shares, given_claims, strict=True) if claim.fixed is None)
        assert min(bound, minima) <= used <= max(bound, minima) + len(free) * (1 + bound // 2**20)


@given(st.integers(0, 1_000_000), st.lists(claims(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_shares_do_not_depend_on_the_order_of_claims(total: int, given_claims: list[Claim], rng: Any) -> None:
    order = list(range(len(given_claims)))
    rng.shuffle(order)
    mixed = fair_shares(total, [given_claims[at] for at in order])
    plain = fair_shares(total, given_claims)
    assert mixed == [plain[at] for at in order]


def test_nothing_is_shared_out_of_nothing() -> None:
    assert fair_shares(10, []) == []
    assert fair_shares(-5, [Claim(), Claim(least=3)]) == [0, 3]


@st.composite
def standings(draw: st.DrawFn) -> Standing:
    usage = draw(st.tuples(st.integers(0, 8), st.integers(0, 8)))
    more = draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    demand = (usage[0] + more[0], usage[1] + more[1])
    # a demand of other types without memory is compared in no order by YARN either
    demand = demand if demand[0] else (0, 0)
    least = draw(st.tuples(st.integers(0, 8), st.integers(0, 8)))
    return Standing(draw(st.text("abc", max_size=3)), usage, demand, least, draw(st.sampled_from([1.0, 2.0, 0.5])))


@given(st.sampled_from(list(QueuePolicy)), standings(), standings(), standings())
def test_order_is_total(policy: QueuePolicy, a: Standing, b: Standing, c: Standing) -> None:
    compare = comparator(policy, (16, 16))
    assert compare(a, b) == -compare(b, a)
    assert compare(a, b) != 0 or a.name == b.name
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


ORDERS: list[Any] = [
    ("fair by usage and weight", QueuePolicy.FAIR, ["b", "a"], {"a": ((8, 0), 2.0), "b": ((3, 0), 1.0)}),
    ("drf by the dominant share", QueuePolicy.DRF, ["a", "b"], {"a": ((4000, 3), 1.0), "b": ((2000, 5), 1.0)}),
    ("a weight of 0 comes last", QueuePolicy.FAIR, ["b", "a"], {"a": ((0, 0), 0.0), "b": ((9, 9), 1.0)}),
]


@pytest.mark.parametrize(("policy", "want", "given_"), [row[1:] for row in ORDERS], ids=[row[0] for row in ORDERS])
def test_order_examples(policy: QueuePolicy, want: list[str], given_: dict[str, Any]) -> None:
    sharers = [Standing(name, usage, (9999, 9), (0, 0), weight) for name, (usage, weight) in given_.items()]
    assert [one.name for one in sorted(sharers, key=sort_key(policy, (8000, 8)))] == want


def test_more_than_two_types_are_compared_pairwise_by_size() -> None:
    compare = comparator(QueuePolicy.DRF, (100, 100, 100))
    left = Standing("l", (50, 10, 0), (0, 0, 0), (0, 0, 0))
    right = Standing("r", (0, 20, 50), (0, 0, 0), (0, 0, 0))
    assert compare(left, right) == -1
    needy = Standing("n", (0, 0, 60), (0, 0, 0), (0, 0, 90))
    assert compare(needy, left) == -1


def test_starvation_needs_the_timeout_to_pass() -> None:
    def lacking(now: float, since: float) -> starvation.Starvation:
        return starvation.of_fair_share(
            (1024, 1), (8192, 8), (4096, 4), threshold=0.5, timeout_ms=1000, calculator=MEMORY_ONLY, cluster=(8192, 8),
            now_ms=now, satisfied_ms=since,
        )  # fmt: skip

    assert lacking(999, 0) == starvation.Starvation((0, 0), 0)
    assert lacking(1000, 0) == starvation.Starvation((1024, 1), 0)


def test_minimum_starvation_is_spread_as_yarn_does() -> None:
    spread = starvation.spread_min_share((4096, 4), [((8192, 8), (0, 0)), ((1024, 1), (0, 0))], MEMORY_ONLY, (8192, 8))
    assert spread == [(4096, 4), None]
    assert starvation.spread_min_share((4096, 4), [((1024, 1), (0, 0))], DOMINANT, (8192, 8)) == [(1024, 1)]
