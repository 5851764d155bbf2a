"""Quota: what may be set, and what a run may give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.interop.mesos.quantities import covers
from strato.interop.mesos.quota import Bounds, Headroom, Quota, QuotaSums, check, problems_of
from strato.interop.mesos.resources import ResourceKind, Resources
from strato.interop.mesos.resourcetext import parse

ONE = Quota({"cpus": 1000}, {"cpus": 2000})


@pytest.mark.parametrize(
    ("role", "quota", "texts"),
    [
        ("a", ONE, []),
        ("*", ONE, []),
        ("a/b", ONE, ["Updating quota on nested role 'a/b' is not supported"]),
        ("a//b", ONE, ["cannot contain two adjacent slashes"]),
        ("a", Quota({"cpus": 3000, "mem": 1}, {"cpus": 2000}), ["guarantee 3 is more than the limit 2"]),
    ],
)
def test_a_quota_is_checked_by_itself(role: str, quota: Quota, texts: list[str]) -> None:
    found = [problem.message for problem in problems_of(role, quota)]
    assert len(found) == len(texts)
    assert all(text in message for text, message in zip(texts, found, strict=True))


def test_a_quota_is_checked_against_the_cluster() -> None:
    others = {"b": Quota({"cpus": 3000})}
    check("a", ONE, {"cpus": 2000}, others, {"cpus": 4000})
    with pytest.raises(InvalidInput) as caught:
        check("a", ONE, {"cpus": 2001}, others, {"cpus": 3999})
    assert [problem.where for problem in caught.value.problems] == ["guarantees.cpus", "limits.cpus"]
    assert "4 are more than the cluster's 3.999" in str(caught.value)
    assert "2 is less than the 2.001 the role consumes" in str(caught.value)


def test_reservations_are_consumed_whether_used_or_not() -> None:
    sums = QuotaSums()
    sums.count_total(parse("cpus:4;cpus(a):1;cpus(a/b):2;mem(c):5"), 1)
    sums.count_held("a/b", parse("cpus:1;cpus(a):1;ports:[1-2]"), 1)
    assert sums.consumed("a") == {"cpus": 4000}
    assert sums.free == {"cpus": 3000}
    sums.count_held("a/b", parse("cpus:1;cpus(a):1;ports:[1-2]"), -1)
    sums.count_total(parse("cpus:4;cpus(a):1;cpus(a/b):2;mem(c):5"), -1)
    assert sums.consumed("a") == sums.consumed("c") == sums.free == {}


def test_headroom_is_what_is_free_beyond_unmet_guarantees() -> None:
    sums = QuotaSums()
    sums.count_total(parse("cpus:10;mem:100"), 1)
    sums.set("a", Quota({"cpus": 4000}, {"cpus": 6000}))
    sums.set("b", Quota({"cpus": 3000}))
    headroom = Headroom(sums)
    assert headroom.unmet == {"a": {"cpus": 4000}, "b": {"cpus": 3000}}
    assert headroom.bounds("other").surplus == {"cpus": 3000}
    headroom.give("a/below", {"cpus": 1000, "mem": 5})
    assert headroom.bounds("other").surplus == {"cpus": 3000}
    headroom.give("other", {"cpus": 2000})
    assert headroom.bounds("other").surplus == {"cpus": 1000}
    headroom.give("a", {"cpus": 4000})
    assert headroom.unmet == {"b": {"cpus": 3000}}
    assert headroom.bounds("a").below_limit == {"cpus": 1000}
    assert headroom.bounds("b").below_limit == headroom.bounds("a/below").below_limit == {}
    assert sums.free == {"cpus": 10_000, "mem": 100_000}, "an account of one run changes no sums"


BOUNDS = Bounds({"cpus": 2000}, {"cpus": 5000, "mem": 0}, {"cpus": 1000})


@pytest.mark.parametrize(
    ("metered", "to_guarantees", "want"),
    [
        ("cpus:8;mem:10;disk:5", False, "cpus:1;disk:5"),
        ("cpus:8;mem:10;disk:5", True, "cpus:3;disk:5"),
        ("mem:10;disk:5", False, "disk:5"),
        ("mem:10;disk:5", True, ""),
    ],
    ids=["what meets no guarantee leaves room for those", "a guarantee is met before", "a limit of nothing",
         "what meets no guarantee is not given to meet one"],
)  # fmt: skip
def test_bounds_leave_a_role(metered: str, to_guarantees: bool, want: str) -> None:
    assert BOUNDS.apply(parse(metered), to_guarantees) == parse(want)


def test_bounds_are_one_object_until_what_they_say_changes() -> None:
    sums = QuotaSums()
    sums.count_total(parse("cpus:10"), 1)
    sums.set("a", Quota({"cpus": 1000}, {"cpus": 6000}))
    sums.set("b", Quota({}, {"cpus": 6000}))
    headroom = Headroom(sums)
    before = headroom.bounds("b")
    assert headroom.bounds("b") is before
    headroom.give("a", {"cpus": 1000})
    after = headroom.bounds("b")
    assert (before.surplus, after.surplus) == ({"cpus": 9000}, {})
    headroom.give("a", {"cpus": 1000})
    assert headroom.bounds("b") is after
    headroom.give("b/c", {"cpus": 1000})
    assert headroom.bounds("b").below_limit == {"cpus": 5000}


_AMOUNTS = st.dictionaries(st.sampled_from(["cpus", "mem"]), st.integers(0, 3), max_size=2)


@given(_AMOUNTS, _AMOUNTS, _AMOUNTS, _AMOUNTS)
def test_bounds_that_hold_no_minimum_leave_less_of_anything(
    limit: dict[str, int], surplus: dict[str, int], metered: dict[str, int], minimum: dict[str, int]
) -> None:
    bounds = Bounds({}, limit, surplus)
    left = bounds.apply(
        Resources.of((ResourceKind(name), millis) for name, millis in metered.items()), to_guarantees=False
    )
    if not bounds.hold_one_of([minimum]):
        assert not covers(left.quantities(), minimum)
    assert bounds.hold_one_of([])
    assert bounds.hold_one_of([minimum, {}])
