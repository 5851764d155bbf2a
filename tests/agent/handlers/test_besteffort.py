"""What best-effort pods may use together, and who of them goes when that is too little."""

from __future__ import annotations

from random import Random

import pytest

from strato.agent.events import Action, ActionKind, ContainerEvent, HostEvent
from strato.agent.handlers.besteffort import BestEffort, BestEffortOptions
from strato.testing.agent import check

CORES = 10.0
EVICTING = BestEffortOptions(evict_lower_percent=50, evict_upper_percent=80, window_seconds=60)


def container(
    uid: str, used: float, *, best_effort: bool = True, request: int = 0, priority: int = 0
) -> ContainerEvent:
    return ContainerEvent(
        at=0, pod_uid=uid, used_cores=used, is_best_effort=best_effort, request_milli=request, priority=priority
    )


def host(at: float, cpu: float, *containers: ContainerEvent, quota: int | None = None, group: bool = True) -> HostEvent:
    return HostEvent(
        at=at,
        capacity_cores=CORES,
        cpu=cpu,
        containers=containers,
        best_effort_milli=quota,
        has_best_effort_group=group,
    )


def handler(options: BestEffortOptions = BestEffort.defaults) -> BestEffort:
    return BestEffort(options, Random(1))


def evicted(actions: list[Action]) -> list[str]:
    return [one.target for one in actions if one.kind is ActionKind.EVICT]


ONLINE = container("online", 3.0, best_effort=False)
QUOTAS = [
    pytest.param(BestEffortOptions(), None, 3.0, 3500, id="65 % less what others use"),
    pytest.param(BestEffortOptions(), 9000, 3.0, 3500, id="it shrinks at once"),
    pytest.param(BestEffortOptions(), 1000, 3.0, 2000, id="it grows by a tenth of the host"),
    pytest.param(BestEffortOptions(), 3450, 3.0, 3450, id="less than a hundredth of the host is no change"),
    pytest.param(BestEffortOptions(), 3500, 9.0, 20, id="never below the least"),
    pytest.param(BestEffortOptions(min_percent=10), 3500, 9.0, 1000, id="never below the floor"),
]


@pytest.mark.parametrize(("options", "before", "online", "after"), QUOTAS)
def test_the_class_gets_what_others_leave(
    options: BestEffortOptions, before: int | None, online: float, after: int
) -> None:
    others = container("online", online, best_effort=False)
    event = host(0, online / CORES + 0.1, others, container("batch", 1.0), quota=before)
    (action,) = handler(options).on_host(event)
    assert (action.kind, action.value) == (ActionKind.SET_CLASS_QUOTA, after)


def test_what_no_container_is_known_for_belongs_to_the_others() -> None:
    (action,) = handler().on_host(host(0, 0.5, ONLINE, container("batch", 1.0)))
    assert action.value == 6500 - 3000 - 1000


def test_a_node_without_a_group_of_the_class_is_reported_once() -> None:
    one = handler()
    (action,) = one.on_host(host(0, 0.5, ONLINE, group=False))
    assert (action.kind, action.reason) == (ActionKind.EVENT, "NoBestEffortGroup")
    assert not one.on_host(host(5, 0.5, ONLINE, group=False))


def test_pods_go_when_their_share_is_too_little_and_as_many_as_leave_the_rest_enough() -> None:
    one = handler(EVICTING)
    batch = [container(f"b{number}", 0.25, request=2000, priority=number) for number in range(4)]
    gone: list[str] = []
    for at in range(0, 25, 5):
        running = [pod for pod in batch if pod.pod_uid not in gone]
        now = evicted(list(one.on_host(host(at, 0.9, ONLINE, *running, quota=1000))))
        assert not now or at >= 15, "a third of the window must have been seen"
        gone += now
    # 1,000 of 8,000 millicores: 5,400 must go for the rest to have 80 %, of 2,000 each
    assert gone == ["b0", "b1", "b2"]


def test_pods_that_do_not_use_their_share_stay() -> None:
    one = handler(EVICTING)
    batch = [container(f"b{number}", 0.05, request=2000) for number in range(4)]
    for at in range(0, 120, 5):
        assert not evicted(list(one.on_host(host(at, 0.9, ONLINE, *batch, quota=1000))))


def test_pods_go_from_a_use_of_the_host_on_and_not_again_at_once() -> None:
    one = handler(BestEffortOptions(evict_threshold_percent=90, cool_down_seconds=20))
    batch = [container("small", 0.1, priority=1), container("large", 2.0), container("middle", 0.3)]
    assert not evicted(list(one.on_host(host(0, 0.89, ONLINE, *batch))))
    assert evicted(list(one.on_host(host(5, 0.95, ONLINE, *batch)))) == ["large"]
    assert not evicted(list(one.on_host(host(10, 0.95, ONLINE, batch[0], batch[2]))))
    assert evicted(list(one.on_host(host(25, 0.95, ONLINE, batch[0], batch[2])))) == ["middle", "small"]


@pytest.mark.parametrize("seed", range(5))
def test_every_promise_of_handlers_is_held(seed: int) -> None:
    options = BestEffortOptions(evict_lower_percent=60, evict_upper_percent=99, evict_threshold_percent=80)
    actions = check(BestEffort, options, seed=seed)
    assert {one.kind for one in actions} == {ActionKind.SET_CLASS_QUOTA, ActionKind.EVENT, ActionKind.EVICT}
