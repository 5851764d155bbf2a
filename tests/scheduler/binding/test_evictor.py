"""Evictions on API servers that refuse, throttle, lose answers and go away between the patch and the deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.wire import Request
from strato.errors import ApiError, Conflict, Forbidden, TooManyRequests, Unavailable
from strato.scheduler.config import parse_config
from strato.scheduler.reporting.evictionrecords import NEEDLESS, REFUSED, STARTED
from strato.testing.faults import RequestFault
from tests.scheduler import worlds
from tests.scheduler.faulty import Setting, is_status, play
from tests.scheduler.reporting.test_evictionrecords import EVICTING, HIGH
from tests.scheduler.test_service import create

VICTIMS = ("v0", "v1", "v2")


def is_deletion(request: Request) -> bool:
    return request.method == "DELETE" and "/pods/" in request.path


class Answers:
    """Answers the first deletions of each victim in one way, and counts them."""

    def __init__(self, answer: ApiError | RequestFault, times: int = 3, only: str = "") -> None:
        self.answer, self.times, self.only = answer, times, only
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> ApiError | RequestFault | None:
        if not is_deletion(request):
            return None
        self.asked[request.path] += 1
        if self.only not in request.path or self.asked[request.path] > self.times:
            return None
        return self.answer


async def fill(s: Setting) -> None:
    """Three unimportant pods with a grace period run on a full node."""
    high = {"apiVersion": "scheduling.k8s.io/v1", **HIGH}
    await s.admin.create(catalog.PRIORITYCLASS, high)
    await create(s.admin, worlds.node("n", cpu="3"), worlds.group("low", 0))
    for name in VICTIMS:
        await create(s.admin, worlds.pod(name, "low"))

    async def bound() -> bool:
        return all((await s.nodes()).values())

    await s.until(bound, 10)
    for name in VICTIMS:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await s.admin.patch(Pod, name, "ns", {"status": status}, subresource="status")


async def end_leaving(s: Setting) -> list[str]:
    """Do as a kubelet whose pods have ended; return whose."""
    page = await s.admin.list(Pod)
    leaving = [pod.metadata.name for pod in page.items if pod.metadata.deletion_timestamp is not None]
    for name in leaving:
        await s.admin.delete(catalog.POD, name, "ns", grace_period_seconds=0)
    return leaving


def one_goes(rule: Callable[[Request], ApiError | RequestFault | None], seconds: float = 60.0) -> Setting:
    """Have an important pod come; exactly one victim must go for it, whatever the rule does."""
    settings = []

    async def story(s: Setting) -> None:
        settings.append(s)
        await fill(s)
        s.cluster.rules.append(rule)
        await create(
            s.admin,
            worlds.group("high", 1, priorityClassName="high"),
            worlds.pod("high", "high", priorityClassName="high"),
        )
        gone: list[str] = []

        async def bound() -> bool:
            gone.extend(await end_leaving(s))
            return (await s.nodes()).get("high") == "n"

        await s.until(bound, seconds)
        await s.clock.sleep(60.0)
        assert await end_leaving(s) == []
        assert len(gone) == 1
        assert {e.outcome for e in s.scheduler.eviction_records.entries} <= {STARTED, REFUSED}
        assert not any(e.outcome == NEEDLESS for e in s.scheduler.eviction_records.entries)

    play(story, config=parse_config(EVICTING))
    return settings[0]


@pytest.mark.parametrize(
    "answer",
    [
        Unavailable("away"),
        TooManyRequests("busy"),
        Conflict("try again"),
        RequestFault.LOST,
        RequestFault.LOST_AND_HANGS,
        RequestFault.HANGS,
    ],
    ids=str,
)
def test_an_eviction_without_a_clear_answer_goes_on_until_there_is_one(answer: ApiError | RequestFault) -> None:
    s = one_goes(Answers(answer), seconds=200.0)
    assert len(s.scheduler.eviction_records.entries) == 1


@pytest.mark.parametrize("away", [False, True], ids=["", "the API is away when its conditions are to be restored"])
def test_a_victim_that_may_not_be_deleted_stays_as_it_was_and_another_goes(away: bool) -> None:
    refusals: list[str] = []
    lost: list[str] = []

    def restoring(request: Request) -> ApiError | None:
        """Lose the first attempts to say that the pod stays."""
        if is_status(request) and b"EvictFailed" in request.body and len(lost) < 3:
            lost.append(request.path)
            return Unavailable("away")
        return None

    def rule(request: Request) -> ApiError | None:
        if is_deletion(request) and (not refusals or request.path == refusals[0]):
            refusals.append(request.path)
            return Forbidden("a webhook says no")
        return None

    async def story(s: Setting) -> None:
        await fill(s)
        s.cluster.rules.append(rule)
        if away:
            s.cluster.rules.append(restoring)
        await create(
            s.admin,
            worlds.group("high", 1, priorityClassName="high"),
            worlds.pod("high", "high", priorityClassName="high"),
        )

        async def bound() -> bool:
            await end_leaving(s)
            return (await s.nodes()).get("high") == "n"

        await s.until(bound, 20)
        await s.clock.sleep(5.0)
        spared = refusals[0].rpartition("/")[2]
        pod = await s.admin.get(Pod, spared, "ns")
        words = {c.type: c.status for c in pod.status.conditions}
        assert (words["Ready"], words["DisruptionTarget"]) == ("True", "False")
        assert [e.outcome for e in s.scheduler.eviction_records.entries] == [REFUSED, STARTED]
        await s.clock.sleep(5.0)
        events = await s.admin.list(catalog.EVENT)
        assert any(b"EvictFailed" in bytes(str(event), "utf-8") for event in events.items)
        assert len(refusals) == 1

    play(story, config=parse_config(EVICTING))


def test_a_victim_deleted_by_somebody_else_is_not_deleted_again() -> None:
    """Between the patch and the deletion its user takes it away, and makes a namesake."""

    async def story(s: Setting) -> None:
        await fill(s)
        answers = Answers(Unavailable("away"), times=4)
        s.cluster.rules.append(answers)
        await create(
            s.admin,
            worlds.group("high", 1, priorityClassName="high"),
            worlds.pod("high", "high", priorityClassName="high"),
        )

        async def asked() -> bool:
            return bool(answers.asked)

        await s.until(asked, 10)
        name = next(iter(answers.asked)).rpartition("/")[2]
        await s.admin.delete(catalog.POD, name, "ns", grace_period_seconds=0)
        await create(s.admin, worlds.pod(name, "low"))

        async def bound() -> bool:
            return (await s.nodes()).get("high") == "n"

        await s.until(bound, 20)
        await s.clock.sleep(60.0)
        pods = (await s.admin.list(Pod)).items
        assert sorted(pod.metadata.name for pod in pods) == ["high", *VICTIMS]
        assert all(pod.metadata.deletion_timestamp is None for pod in pods)

    play(story, config=parse_config(EVICTING))
