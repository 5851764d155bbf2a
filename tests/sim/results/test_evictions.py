from __future__ import annotations

from strato.sim.results.evictions import EvictionPair, evictions_of
from strato.sim.results.record import Ending
from tests.sim.results.build import Ran, columns, job


def test_evictions_that_helped_and_that_did_not() -> None:
    jobs = [job("a", cpu="2"), job("b", cpu="1"), job("gainer", queue="high"), job("unlucky", queue="high")]
    ran = [
        Ran(0, 0, 60, ending=Ending.EVICTED, gainer=2),
        Ran(1, 0, 30, ending=Ending.EVICTED, gainer=3),
        Ran(2, 65, 100),
        Ran(1, 70, 100),
    ]
    found = evictions_of(columns(jobs, ran))
    assert (found.pods, found.jobs, found.beneficiaries, found.helped, found.never_helped) == (2, 2, 2, 1, 1)
    assert found.cpu_seconds_lost == 60 * 2 + 30
    assert found.median_seconds_until_start == 5.0
    assert found.between == [EvictionPair("default", "high", 2)]


def test_what_began_before_the_eviction_does_not_count_as_help() -> None:
    jobs = [job("a"), job("gainer", replicas=2)]
    ran = [Ran(1, 0, 100), Ran(0, 0, 50, ending=Ending.EVICTED, gainer=1)]
    assert evictions_of(columns(jobs, ran)).helped == 0
    assert evictions_of(columns(jobs, [*ran, Ran(1, 50, 100, pod=1)])).helped == 1


def test_lost_nodes_and_unknown_beneficiaries_are_counted_by_themselves() -> None:
    ran = [Ran(0, 0, 5, ending=Ending.LOST), Ran(0, 6, 9, ending=Ending.EVICTED)]
    found = evictions_of(columns([job("a")], ran))
    assert (found.pods, found.unknown, found.pods_lost_with_nodes, found.beneficiaries) == (1, 1, 1, 0)
    assert evictions_of(columns([job("a")], [])).pods == 0
