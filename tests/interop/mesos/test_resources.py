"""Resources: what merges, what does not, and what arithmetic keeps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos import intervals
from strato.interop.mesos.resources import NOTHING, DiskInfo, Reservation, ResourceKind, Resources, scalars_of
from strato.interop.mesos.resourcetext import parse
from tests.interop.mesos.strategies import resources

VOLUME = ResourceKind("disk", reservations=(Reservation("a"),), disk=DiskInfo("v1", text="v1"))
MOUNT = ResourceKind("disk", disk=DiskInfo(source_type="MOUNT", text="/mnt"))
SHARED = replace(VOLUME, shared=True)


def of(kind: ResourceKind, *millis: int) -> Resources:
    return Resources.of((kind, each) for each in millis)


@pytest.mark.parametrize("kind", [VOLUME, MOUNT, SHARED], ids=["volume", "mount disk", "shared volume"])
def test_what_is_not_divisible_neither_merges_nor_splits(kind: ResourceKind) -> None:
    two = of(kind, 5000, 7000)
    assert len(two) == 2
    assert two.contains(of(kind, 5000))
    assert not two.contains(of(kind, 4000))
    assert two - of(kind, 4000) == two
    assert two - of(kind, 5000) == of(kind, 7000)


def test_a_shared_volume_counts_once_however_many_copies() -> None:
    three = of(SHARED, 5000, 5000, 5000)
    assert three.scalars() == {"disk": 5000}
    assert of(VOLUME, 5000, 5000).scalars() == {"disk": 10_000}
    assert three - of(SHARED, 5000) == of(SHARED, 5000, 5000)
    assert three - three == NOTHING


@pytest.mark.parametrize(
    "other",
    [
        replace(ResourceKind("cpus"), revocable=True),
        replace(ResourceKind("cpus"), provider_id="p"),
        replace(ResourceKind("cpus"), allocated_to="a"),
        ResourceKind("cpus", reservations=(Reservation("a"),)),
        ResourceKind("cpus", reservations=(Reservation("a", dynamic=True),)),
    ],
    ids=["revocable", "of a provider", "allocated", "static", "dynamic"],
)
def test_kinds_that_differ_in_anything_do_not_merge(other: ResourceKind) -> None:
    both = of(ResourceKind("cpus"), 1000) + of(other, 1000)
    assert len(both) == 2
    assert not of(ResourceKind("cpus"), 2000).contains(of(other, 1000))


def test_a_volume_made_of_a_plain_disk_becomes_a_copy() -> None:
    made = of(replace(VOLUME, disk=None), 5000).map(lambda kind: VOLUME)
    assert made == of(VOLUME, 5000)
    assert made.map(lambda kind: replace(kind, disk=None)) == of(replace(VOLUME, disk=None), 5000)


def test_reservations_are_pushed_and_popped_as_a_stack() -> None:
    reserved = parse("cpus:1").push_reservation(Reservation("a")).push_reservation(Reservation("a/b", dynamic=True))
    (kind, _), *_ = reserved
    assert (kind.role, len(kind.reservations)) == ("a/b", 2)
    assert reserved.reserved("a/b") == reserved
    assert not reserved.reserved("a")
    assert reserved.pop_reservation() == parse("cpus(a):1")
    assert reserved.to_unreserved() == parse("cpus:1")


@pytest.mark.parametrize(
    ("role", "wanted"),
    [("a", "cpus:1;cpus(a):2"), ("a/b", "cpus:1;cpus(a):2;cpus(a/b):4"), ("ab", "cpus:1"), ("*", "cpus:1")],
)
def test_reservations_are_for_the_role_and_those_below_it(role: str, wanted: str) -> None:
    assert parse("cpus:1;cpus(a):2;cpus(a/b):4").allocatable_to(role) == parse(wanted)


@pytest.mark.parametrize(
    ("have", "most", "unlimited", "wanted"),
    [
        ("cpus:4;mem:10;ports:[1-3]", {"cpus": 1500}, True, "cpus:1.5;mem:10;ports:[1-3]"),
        ("cpus:4;mem:10;ports:[1-3]", {"cpus": 1500}, False, "cpus:1.5;ports:[1-3]"),
        ("cpus:1", {"cpus": 2000}, True, "cpus:1"),
        ("cpus:1", {"cpus": 0}, True, ""),
        ("cpus:2;cpus(a):3", {"cpus": 4000}, True, "cpus:2;cpus(a):2"),
    ],
)
def test_shrinking_chops_scalars(have: str, most: dict[str, int], unlimited: bool, wanted: str) -> None:
    assert parse(have).shrunk(most, unlimited) == parse(wanted)


def test_shrinking_takes_whole_disks_whole_or_not() -> None:
    disks = of(MOUNT, 100_000, 100_000, 30_000)
    assert disks.shrunk({"disk": 150_000}) == of(MOUNT, 100_000, 30_000)
    assert disks.shrunk({"disk": 99_000}) == of(MOUNT, 30_000)


def test_scalars_are_found_by_name_over_all_kinds() -> None:
    assert parse("cpus:1.5;cpus(a):1;ports:[1-10];disks:{a,b}").scalar("cpus") == 2.5
    assert parse("cpus:1;ports:[1-10];disks:{a,b}").quantities() == {"cpus": 1000, "ports": 10_000, "disks": 2000}
    assert parse("cpus:1").scalar("mem") is None
    assert scalars_of(cpus=1.5, mem=0) == parse("cpus:1.5")


@given(resources(), resources())
def test_taking_away_what_was_added_restores(some: Resources, more: Resources) -> None:
    plain = some.filter(lambda kind: kind.name not in {"ports", "disks"})  # of these a union may hide what was there
    assert (plain + more) - more == plain - (more - more)


@given(resources(), resources())
def test_addition_is_commutative_and_contains_both(some: Resources, more: Resources) -> None:
    both = some + more
    assert both == more + some
    assert both.contains(some)
    assert both.contains(more)
    assert hash(both) == hash(more + some)


@given(resources(), resources())
def test_the_rest_and_what_was_taken_are_apart(some: Resources, more: Resources) -> None:
    rest = some - more
    assert some.contains(rest)
    if some.contains(more):
        assert rest + more == some


@given(resources())
def test_nothing_is_zero_and_kinds_come_back(some: Resources) -> None:
    assert all(amount for _, amount in some)
    assert some.allocated("a").allocated(None) == some
    assert some.contains(some)
    assert some - some == NOTHING
    assert some.shared() + some.non_shared() == some
    assert some.revocable() + some.non_revocable() == some
    assert some.reserved() + some.unreserved() == some


@given(resources(), st.dictionaries(st.sampled_from(["cpus", "mem", "disk"]), st.integers(0, 20_000)), st.booleans())
def test_what_is_shrunk_is_a_part_within_bounds(some: Resources, most: dict[str, int], unlimited: bool) -> None:
    part = some.shrunk(most, unlimited)
    assert some.contains(part)
    counted = {kind.name: 0 for kind, _ in some}
    for kind, amount in part:
        if isinstance(amount, int):
            counted[kind.name] += amount * (kind.whole_millis or 1)
    assert all(counted.get(name, 0) <= millis for name, millis in most.items() if name in some.scalars())
    if not unlimited:
        assert set(part.scalars()) <= set(most)


@given(resources(), resources())
def test_what_is_found_is_there_and_as_much_as_wanted(some: Resources, target: Resources) -> None:
    plain = target.filter(lambda kind: kind.whole_millis is None)
    found = some.find(plain)
    if some.contains(plain):
        assert found == plain
    if found is not None:
        assert some.contains(found)
        assert found.to_unreserved() == plain.to_unreserved() or found.quantities() == plain.quantities()


RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=5)


@given(RANGES, RANGES)
def test_ranges_are_sets_of_numbers(some: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    def numbers(ranges: Any) -> set[int]:
        return {n for begin, end in ranges for n in range(begin, end + 1)}

    left, right = intervals.joined(some), intervals.joined(more)
    assert numbers(left) == numbers(some)
    assert all(second[0] > first[1] + 1 for first, second in pairwise(left))
    assert intervals.count(left) == len(numbers(some))
    rest = intervals.without(left, right)
    assert numbers(rest) == numbers(some) - numbers(more)
    assert rest == intervals.joined(rest)
    assert intervals.covers(left, right) is (numbers(more) <= numbers(some))
