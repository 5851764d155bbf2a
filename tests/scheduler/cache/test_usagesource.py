"""Reading node usage from metrics systems, over real sockets."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from strato.clock import VirtualClock
from strato.scheduler.cache.usage import NodeUsage, Usages
from strato.scheduler.cache.usagesource import UsageSource, interval_seconds

Json = dict[str, Any]


class FakeCluster:
    """Answers the custom metrics API."""

    async def raw(self, method: str, path: str) -> bytes:
        value = {"node_cpu_usage_avg": "250m", "node_memory_usage_avg": "0.5"}[path.rpartition("/")[2]]
        return b'{"items":[{"describedObject":{"name":"n1"},"value":"%s"}]}' % value.encode()


@asynccontextmanager
async def serving(handler: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def source(metrics: dict[str, str], found: list[int], timeout: float = 10.0) -> tuple[UsageSource, Usages]:
    usages = Usages()
    cluster: Any = FakeCluster()
    made = UsageSource(
        cluster, VirtualClock(1000.0), usages, lambda: metrics, lambda take: (take(), found.append(1)), timeout
    )
    return made, usages


async def prometheus(request: web.Request) -> web.Response:
    query = str((await request.post())["query"])
    value = "30.5" if "node_cpu_seconds_total" in query else "60"
    assert "[10m:30s]" in query
    rows = [{"metric": {"instance": "n1"}, "value": [0, value]}, {"metric": {"instance": "n1"}, "value": [0, "99"]}]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": rows}})


async def elasticsearch(request: web.Request) -> web.Response:
    assert request.path == "/beats/_search"
    assert request.headers["Authorization"] == "Basic dTpw"
    body = await request.json()
    assert body["aggs"]["nodes"]["terms"]["field"] == "host.name"
    buckets = [{"key": "n1", "cpu": {"value": 0.305}, "mem": {"value": 0.6}}]
    return web.json_response({"aggregations": {"nodes": {"buckets": buckets}}})


SOURCES = [
    pytest.param(prometheus, {"type": "prometheus"}, (30.5, 60.0), id="prometheus: first row"),
    pytest.param(
        elasticsearch,
        {
            "type": "elasticsearch",
            "elasticsearch.index": "beats",
            "elasticsearch.hostnameFieldName": "host.name",
            "elasticsearch.username": "u",
            "elasticsearch.password": "p",
        },
        (30.5, 60.0),
        id="elasticsearch: averages by host name",
    ),
    pytest.param(prometheus, {"type": "prometheus_adaptor"}, (25.0, 50.0), id="custom metrics API: parts of one"),
]


@pytest.mark.parametrize(("handler", "metrics", "percents"), SOURCES)
async def test_a_poll(handler: Any, metrics: dict[str, str], percents: tuple[float, float]) -> None:
    found: list[int] = []
    async with serving(handler) as address:
        asks, usages = source({**metrics, "address": address + "/"}, found)
        await asks.poll()
    usage = usages.by_node["n1"]
    assert usage.cpu["10m"] == pytest.approx(percents[0])
    assert usage.memory["10m"] == pytest.approx(percents[1])
    assert (usage.at, found, usages.version) == (1000.0, [1], 1)


async def refuse(request: web.Request) -> web.Response:
    return web.Response(status=503, text="not now")


async def nonsense(request: web.Request) -> web.Response:
    return web.json_response({"data": {}})


async def endless(request: web.Request) -> web.Response:
    return web.Response(body=b"[" + b" " * (2 << 20))


@pytest.mark.parametrize("handler", [refuse, nonsense, endless], ids=["refuses", "answers nonsense", "never stops"])
async def test_failures_are_told_once_and_the_last_values_stay(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    found: list[int] = []
    async with serving(handler) as address:
        metrics = {"type": "prometheus", "address": address}
        asks, usages = source(metrics, found)
        usages.take({"n1": NodeUsage({"10m": 1.0}, {"10m": 2.0}, 5.0)})
        with caplog.at_level(logging.WARNING):
            await asks.poll()
            await asks.poll()
        assert len(caplog.records) == 1
        assert (usages.by_node["n1"].at, found) == (5.0, [])
    async with serving(prometheus) as address:
        metrics["address"] = address
        await asks.poll()
    assert usages.by_node["n1"].at == 1000.0
    metrics["address"] = "http://127.0.0.1:9"
    with caplog.at_level(logging.WARNING):
        await asks.poll()
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10.0), ("1s", 1.0), ("", 30.0), ("0s", 30.0), ("-1s", 30.0), ("often", 30.0)]
)
def test_interval(text: str, seconds: float) -> None:
    assert interval_seconds({"interval": text}) == seconds
