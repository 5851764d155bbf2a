"""Allocation files and placement rules: what is refused, with its line, and what a person should know."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.fair import allocationfile, notation, placement
from strato.interop.yarn.fair.allocation import Allocations, acl_text
from strato.interop.yarn.resources import MOST, ResourceTypes


def read(xml: str, *others: str, check_rules: bool = True) -> Allocations:
    root = hadoopxml.parse(xml if xml.startswith("<configuration") else f"<allocations>\n{xml}</allocations>")
    return allocationfile.read(root, ResourceTypes.with_others(others), "f.xml", check_rules=check_rules)


def test_all_problems_are_reported_at_once_with_their_lines() -> None:
    with pytest.raises(InvalidInput) as caught:
        read(
            "<queue name='a'><weight>heavy</weight>\n<maxRunningApps/></queue>\n"
            "<queue name='b.c'/><queue name=''/>\n"
            "<queue name='d'><schedulingPolicy>lottery</schedulingPolicy></queue>\n"
            "<queuePlacementPolicy><rule name='specifed'/></queuePlacementPolicy>"
        )
    assert str(caught.value).splitlines() == [
        "f.xml is invalid (6 problems)",
        "  line 2: root.a: weight: 'heavy' is no number",
        "  line 3: root.a: <maxRunningApps> is empty; give it a value or leave it out",
        "  line 4: root.b.c: a queue's name has no dots; nest <queue> elements instead",
        "  line 4: root: a queue without a name",
        "  line 5: root.d: schedulingPolicy: 'lottery' is no policy; expected fair, drf or fifo",
        "  line 6: queuePlacementPolicy: 'specifed' is no placement rule; did you mean 'specified'?",
    ]


BAD: list[Any] = [
    ("another root", "<configuration/>", "expected <allocations>"),
    ("a user without a number", "<user name='u'><maxRunningApps>x</maxRunningApps></user>", "user u: maxRunningApps"),
    ("an ACL without text", "<queue name='a'><aclSubmitApps/></queue>", "write a blank for nobody"),
    ("a weight without end", "<queue name='a'><weight>1e99</weight></queue>", "too large a number"),
    ("a reservation in a parent", "<queue name='a' type='parent'><reservation/></queue>", "takes no <reservation>"),
    ("rules that go past the end", "<queuePlacementPolicy><rule name='specified'/></queuePlacementPolicy>", "get past"),
    (
        "a rule in one that takes none",
        "<queuePlacementPolicy><rule name='default'><rule name='user'/></rule></queuePlacementPolicy>",
        "takes no rule",
    ),
    ("fifo as default", "<defaultQueueSchedulingMode>fifo</defaultQueueSchedulingMode>", "fifo cannot be the default"),
]


@pytest.mark.parametrize(("xml", "text"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_files_are_refused(xml: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        read(xml)


TRAPS: list[Any] = [
    ("a minimum in percent", "<minResources>50%</minResources>", "counts as 0", True),
    ("a negative weight", "<weight>-1</weight>", "expected a number from 0", True),
    ("drf below fair", "<schedulingPolicy>drf</schedulingPolicy>", "let the parent have drf", True),
    ("a container in percent", "<maxContainerAllocation>50%</maxContainerAllocation>", "limits nothing", True),
    ("an old maximum", "<maxResources>1 mb, 1 vcores</maxResources>", "sets gpu to 0", False),
    ("a new maximum without vcores", "<maxResources>memory-mb=1, gpu=1</maxResources>", "vcores are not named", False),
    ("an old percentage by name", "<maxResources>50% memory, 50% cpu</maxResources>", "gpu becomes 0 %", False),
    (
        "a negative threshold",
        "<fairSharePreemptionThreshold>-2</fairSharePreemptionThreshold>",
        "a negative threshold counts as 0",
        False,
    ),
    (
        "a minimum above the maximum",
        "<minResources>9 mb, 1 vcores</minResources><maxResources>memory-mb=1, vcores=1</maxResources>",
        "exceeds maxResources",
        False,
    ),
    ("an unknown element", "<maxResource>50%</maxResource>", "no setting of a queue and is ignored", False),
    ("no application", "<maxRunningApps>-1</maxRunningApps>", "no application ever runs", False),
]


@pytest.mark.parametrize(("xml", "text", "refuses"), [row[1:] for row in TRAPS], ids=[row[0] for row in TRAPS])
def test_traps_are_remarked_on(xml: str, text: str, refuses: bool) -> None:
    remarks = read(f"<queue name='a'>\n{xml}</queue>", "gpu").remarks
    assert [(remark.refuses, "root.a" in remark.where) for remark in remarks] == [(refuses, True)]
    assert text in remarks[0].text
    assert remarks[0].line in (2, 3)


def test_a_queue_declared_twice_takes_the_later_values() -> None:
    twice = read("<queue name='a'><weight>2</weight><maxRunningApps>3</maxRunningApps></queue>"
                 "<pool name='a'><weight>5</weight></pool>").settings_of("root.a")  # fmt: skip
    assert (twice.weight, twice.max_apps) == (5.0, 3)


def test_unreachable_rules_only_warn_when_the_check_is_off() -> None:
    xml = "<queuePlacementPolicy><rule name='user'/><rule name='default'/></queuePlacementPolicy>"
    assert "never reached" in read(xml, check_rules=False).remarks[0].text


@pytest.mark.parametrize(
    ("text", "want"),
    [("*", "*"), (" ", " "), ("a,b g", "a,b g"), ("a, b", "a b"), (" g1,g2", " g1,g2"), ("a", "a ")],
)
def test_access_lists_are_users_blank_groups(text: str, want: str) -> None:
    assert acl_text(text) == want


@given(st.text("0123456789.%-=, mbvcoresyugp", max_size=40))
def test_any_amount_is_read_or_refused_in_words(text: str) -> None:
    with contextlib.suppress(notation.NotationError):
        found = notation.parse(text, ResourceTypes())
        assert all(-1 <= number <= MOST for number in found.on((1000, 10)))


class _Queues:
    def is_configured(self, name: str) -> bool:
        return name == "root.known"

    def is_leaf(self, name: str) -> bool:
        return name == "root.known"


def test_an_application_without_groups_is_refused_by_rules_that_need_them() -> None:
    rules = (placement.PlacementRule("primaryGroup"),)
    with pytest.raises(placement.PlacementRefused, match="no groups are known"):
        placement.place(rules, "default", "u", lambda user: [], _Queues())
    assert placement.place((placement.PlacementRule("reject"),), "q", "u", lambda user: [], _Queues()) is None
    assert (
        placement.place((placement.PlacementRule("specified", create=False),), "known", "u", list, _Queues())
        == "root.known"
    )
