"""Calls to a load balancer over a real socket: what they say, how they are signed, when they are repeated."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from strato.agent.events import ContainerEvent, HostEvent, Workload
from strato.agent.policy import WebhookOptions
from strato.agent.trafficcalls import TrafficCalls
from strato.clock import parse_time

SECRET = b"key"


class Instant:
    """A clock on which waiting takes no time, and is noted."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


class Balancer:
    """Answers by a list of statuses, the last one for ever."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.answer: bytes = b"{}"
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
        headers = {name.lower(): value.strip() for name, value in (one.split(":", 1) for one in head)}
        self.calls.append((headers, await reader.readexactly(int(headers["content-length"]))))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status:  # otherwise it hangs up
            length = len(self.answer)
            writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n".encode() + self.answer)
        writer.close()

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.calls]


@asynccontextmanager
async def world() -> AsyncIterator[tuple[Balancer, TrafficCalls, Instant, Callable[..., Awaitable[None]]]]:
    balancer, clock = Balancer(), Instant()
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0)
    options = WebhookOptions(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/weights", target=0.8)
    calls = TrafficCalls(clock, Random(1), "n1", SECRET)

    async def step(value: float | None, *, after: float = 61.0) -> None:
        clock.at += after
        calls.step("cpu", value, host(clock.at, value or 0.5), options)
        await asyncio.gather(*calls._running)

    async with server:
        yield balancer, calls, clock, step
    await calls.close()


def host(at: float, cpu: float) -> HostEvent:
    def container(name: str, priority: int, used: float, workload: Workload = Workload.ONLINE) -> ContainerEvent:
        return ContainerEvent(
            at=at,
            pod_uid=name,
            namespace="default",
            pod=name,
            container="main",
            priority=priority,
            workload=workload,
            used_cores=used,
            ip="10.0.0.1",
            service="web",
        )

    containers = (
        container("low", 100, 2.0),
        container("high", 1000, 4.0),
        container("train", 0, 4.0, Workload.TRAINING),
    )
    return HostEvent(at=at, capacity_cores=10.0, cpu=cpu, containers=containers)


async def test_a_call_says_whom_to_send_less_and_is_signed() -> None:
    async with world() as (balancer, calls, clock, step):
        await step(0.83)
        [(headers, body)] = balancer.calls
        assert headers["x-strato-signature"] == hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        [found] = balancer.bodies()
        assert headers["idempotency-key"] == found["id"]
        assert (found["version"], found["node"], found["resource"], found["level"]) == ("v1", "n1", "cpu", "hot")
        assert (found["utilisation"], found["target"]) == (0.83, 0.8)
        assert parse_time(found["expiresAt"]) == clock.at + 120
        # 0.3 cores of the 2 that the pod of lowest priority uses
        assert [(one["uid"], one["weightPercent"], one["priority"], one["ip"]) for one in found["pods"]] == [
            ("low", 85, 100, "10.0.0.1")
        ]
        assert not calls.is_relieved("cpu")


async def test_it_is_renewed_before_it_lapses_and_given_back_step_by_step() -> None:
    async with world() as (balancer, calls, _, step):
        await step(0.83)
        await step(0.83, after=30.0)
        assert len(balancer.calls) == 1, "not before half of the time"
        await step(0.83, after=31.0)
        await step(None)
        await step(None)
        assert [[one["weightPercent"] for one in body["pods"]] for body in balancer.bodies()] == [
            [85],
            [72],
            [92],
            [100],
        ]
        assert [body["level"] for body in balancer.bodies()] == ["hot", "hot", "hot", "ok"]
        assert calls.is_relieved("cpu")
        await step(None)
        assert len(balancer.calls) == 4, "who has everything back is not called"


async def test_what_the_balancer_applied_counts_from_then_on() -> None:
    async with world() as (balancer, _, _, step):
        balancer.answer = json.dumps(
            {"applied": [{"uid": "low", "weightPercent": 95}, {"uid": "other", "weightPercent": 1}], "rejected": []}
        ).encode()
        await step(0.83)
        balancer.answer = b"no JSON"
        await step(None)
        assert [body["pods"][0]["weightPercent"] for body in balancer.bodies()] == [85, 100]


@pytest.mark.parametrize(
    ("applied", "used", "after"),
    [
        pytest.param(60, None, 80, id="less than was asked for"),
        pytest.param(0, None, 20, id="nothing"),
        pytest.param(-50, None, 20, id="less than nothing"),
        pytest.param(250, 0.83, 85, id="more than everything"),
    ],
)
async def test_a_weight_that_was_applied_is_a_percentage(applied: int, used: float | None, after: int) -> None:
    async with world() as (balancer, _, _, step):
        balancer.answer = json.dumps({"applied": [{"uid": "low", "weightPercent": applied}]}).encode()
        await step(0.83)
        await step(used)
        assert balancer.bodies()[1]["pods"][0]["weightPercent"] == after


async def test_failures_are_repeated_and_refusals_are_not() -> None:
    async with world() as (balancer, calls, clock, step):
        balancer.statuses = [500, 0, 503, 200]
        await step(0.83)
        assert clock.waits == [1.0, 2.0, 4.0]
        assert len({body["id"] for body in balancer.bodies()}) == 1, "the same decision"
        assert calls.codes == {"500": 1, "error": 1, "503": 1, "200": 1}
        balancer.statuses, balancer.calls = [400], []
        await step(0.83)
        assert len(balancer.calls) == 1
        balancer.statuses, balancer.calls = [500], []
        await step(0.83)
        assert len(balancer.calls) == 4, "then the next round asks"
