"""Quota: what may be set, and what a run may give."""

from __future__ import annotations

import pytest

from strato.errors import InvalidInput
from strato.interop.mesos.quota import Headroom, Quota, QuotaSums, check, problems_of
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
    assert headroom.surplus() == {"cpus": 3000}
    headroom.give("a/below", {"cpus": 1000, "mem": 5})
    assert headroom.surplus() == {"cpus": 3000}
    headroom.give("other", {"cpus": 2000})
    assert headroom.surplus() == {"cpus": 1000}
    headroom.give("a", {"cpus": 4000})
    assert headroom.unmet == {"b": {"cpus": 3000}}
    assert headroom.below_limit("a") == {"cpus": 1000}
    assert headroom.below_limit("a", {"cpus": 5000}) == {"cpus": 0}
    assert headroom.below_limit("b") == {}
    assert headroom.below_limit("a/below") == {}
    assert sums.free == {"cpus": 10_000, "mem": 100_000}, "an account of one run changes no sums"
