"""Sorters: the order of fairness, kept current, is the one that is computed from scratch."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos.resources import DiskInfo, ResourceKind, Resources, scalars_of
from strato.interop.mesos.sorter import ClusterTotals, Sorter


def sorter(*clients: str, excluded: frozenset[str] = frozenset(), rng: random.Random | None = None) -> Sorter:
    totals = ClusterTotals()
    totals.set_agent("agent", scalars_of(cpus=100, mem=100, gpus=10).scalars())
    made = Sorter(totals, excluded, rng)
    for client in clients:
        made.add(client)
        made.activate(client)
    return made


def test_excluded_scalars_do_not_count() -> None:
    for excluded, first in ((frozenset({"gpus"}), "a"), (frozenset[str](), "b")):
        made = sorter("a", "b", excluded=excluded)
        made.allocated("a", "agent", scalars_of(cpus=1, gpus=5))
        made.allocated("b", "agent", scalars_of(cpus=2))
        assert made.order()[0] == first


def test_a_weight_is_its_nodes_and_not_of_the_frameworks_there() -> None:
    """The weight of ``a`` is compared with ``b``'s; among ``a``'s children its own frameworks have weight 1."""
    made = sorter("a", "a/x", "b")
    made.set_weight("a", 4)
    made.allocated("a", "agent", scalars_of(cpus=8))
    made.allocated("a/x", "agent", scalars_of(cpus=7))
    made.allocated("b", "agent", scalars_of(cpus=5))
    assert made.order() == ["a/x", "a", "b"]


def test_what_only_restores_the_old_share_is_counted_as_one_more_allocation() -> None:
    made = sorter("a", "b")
    made.allocated("a", "agent", scalars_of(cpus=1))
    made.unallocated("a", "agent", scalars_of(cpus=1))
    assert made.order() == ["b", "a"]
    made.updated("b", "agent", Resources(), scalars_of(cpus=1))
    made.updated("b", "agent", scalars_of(cpus=1), Resources())
    assert made.order() == ["b", "a"]


def test_names_win_ties_byte_by_byte_with_a_dot_for_the_roles_own() -> None:
    made = sorter("a", "a/b", "a/!", "B")
    assert made.order() == ["B", "a/!", "a", "a/b"]


def test_equal_ratios_are_equal_shares() -> None:
    totals = ClusterTotals()
    totals.set_agent("agent", {"cpus": 3_000, "mem": 9_000_000})
    made = Sorter(totals)
    for client in ("b", "a"):
        made.add(client)
        made.activate(client)
    made.allocated("a", "agent", Resources({ResourceKind("cpus"): 1_000}))
    made.allocated("b", "agent", Resources({ResourceKind("mem"): 3_000_000}))
    assert made.order() == ["a", "b"]


def test_a_shared_volume_counts_once_per_node_of_the_tree() -> None:
    volume = Resources.of([(ResourceKind("disk", disk=DiskInfo("v"), shared=True), 5000)])
    made = sorter("a/x", "a/y")
    made.allocated("a/x", "agent", volume + volume)
    made.allocated("a/y", "agent", volume)
    assert made.quantities() == {"disk": 5000}
    assert made.quantities("a/x") == {"disk": 5000}
    made.remove("a/x")
    assert made.quantities() == {"disk": 5000}
    made.unallocated("a/y", "agent", volume)
    assert made.quantities() == {}


def test_an_agent_that_goes_takes_its_part_of_the_totals() -> None:
    totals = ClusterTotals()
    totals.set_agent("a", {"cpus": 1000, "mem": 5})
    totals.set_agent("b", {"cpus": 2000})
    totals.set_agent("a", {"cpus": 4000})
    assert totals.millis == {"cpus": 6000}
    totals.remove_agent("a")
    totals.remove_agent("unknown")
    assert totals.millis == {"cpus": 2000}


def test_a_random_order_is_of_the_generator_and_by_weight() -> None:
    orders = [[sorter("a", "b", "c/x", "c/y", rng=random.Random(seed)).order() for seed in range(20)] for _ in range(2)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders[0]}) > 5
    made = sorter("a", "b/x", "b/y", rng=random.Random(1))
    made.set_weight("a", 3)
    firsts = Counter(made.order()[0] for _ in range(4000))
    assert firsts["a"] / 4000 == pytest.approx(3 / 4, abs=0.03)
    assert firsts["b/x"] / 4000 == pytest.approx(1 / 8, abs=0.03)
    made.deactivate("b/x")
    assert set(made.order()) == {"a", "b/y"}


CLIENTS = ["a", "b", "a/a", "a/b", "a/a/a", "b/c", "c/d", "*"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "remove", "activate", "deactivate", "give", "give", "give", "take", "weight", "agent", "look"]
        ),
        st.sampled_from(CLIENTS),
        st.integers(1, 9),
        st.integers(0, 9),
    ),
    max_size=40,
)


class _Scratch:
    """What was done to a sorter; the order is computed from this alone."""

    def __init__(self) -> None:
        self.held: dict[str, list[tuple[int, int]]] = {}
        self.active: set[str] = set()
        self.weights: dict[str, float] = {}
        self.totals = (100, 100)

    def share(self, clients: list[str], path: str) -> float:
        cpus, mem = (sum(pair[i] for client in clients for pair in self.held[client]) for i in (0, 1))
        return max(cpus / self.totals[0], mem / self.totals[1]) / self.weights.get(path, 1.0)

    def order(self, prefix: str = "") -> list[str]:
        below = [client for client in self.held if client.startswith(prefix)]
        names = {client[len(prefix) :].split("/")[0] for client in below}
        entries: list[tuple[float, str, list[str]]] = []
        for name in names:
            path = prefix + name
            there = [client for client in below if client == path or client.startswith(path + "/")]
            if there == [path]:
                entries.append((self.share(there, path), path, there if path in self.active else []))
            else:
                entries.append((self.share(there, path), path, self.order(path + "/")))
        own = prefix[:-1]
        if own in self.held:
            entries.append((self.share([own], prefix + "."), prefix + ".", [own] if own in self.active else []))
        return [client for _, _, clients in sorted(entries) for client in clients]


@given(STEPS)
def test_the_order_kept_current_is_the_one_from_scratch(steps: list[tuple[str, str, int, int]]) -> None:
    totals = ClusterTotals()
    totals.set_agent("agent", {"cpus": 100, "mem": 100})
    made, scratch = Sorter(totals), _Scratch()
    for op, client, cpus, mem in steps:
        _step(totals, made, scratch, op, client, cpus, mem)
    expected = scratch.order()
    got = made.order()
    assert sorted(got) == sorted(expected)
    for client, held in scratch.held.items():
        sums = {"cpus": sum(cpus for cpus, _ in held), "mem": sum(mem for _, mem in held)}
        assert made.quantities(client) == {name: total for name, total in sums.items() if total}
    if not _has_ties(made):
        assert got == expected


def _has_ties(made: Sorter) -> bool:
    """Whether allocation counts, which the scratch does not keep, decide somewhere."""

    def nodes(node: Any) -> Any:
        yield node
        for child in node.children.values():
            yield from nodes(child)

    for node in nodes(made._root):
        shares = [entry[0] for entry in node.order]
        if len(set(shares)) < len(shares):
            return True
    return False


def _step(totals: ClusterTotals, made: Sorter, scratch: _Scratch, op: str, client: str, cpus: int, mem: int) -> None:
    known = client in scratch.held
    resources = Resources({ResourceKind("cpus"): cpus} | ({ResourceKind("mem"): mem} if mem else {}))
    if op == "add" and not known:
        made.add(client)
        scratch.held[client] = []
    elif op == "agent":
        totals.set_agent("agent", {"cpus": 50 + cpus, "mem": 50 + mem})
        scratch.totals = (50 + cpus, 50 + mem)
    elif op == "weight":
        made.set_weight(client, float(cpus))
        scratch.weights[client] = float(cpus)
    elif op == "look":
        assert len(made.order()) == len(scratch.active)
    elif not known:
        return
    elif op == "remove":
        made.remove(client)
        del scratch.held[client]
        scratch.active.discard(client)
    elif op in ("activate", "deactivate"):
        getattr(made, op)(client)
        (scratch.active.add if op == "activate" else scratch.active.discard)(client)
    elif op == "give":
        made.allocated(client, "agent", resources)
        scratch.held[client].append((cpus, mem))
    elif op == "take" and scratch.held[client]:
        cpus, mem = scratch.held[client].pop()
        made.unallocated(
            client, "agent", Resources({ResourceKind("cpus"): cpus} | ({ResourceKind("mem"): mem} if mem else {}))
        )
