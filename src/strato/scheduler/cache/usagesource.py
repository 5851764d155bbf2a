"""Polls a metrics system for the usage of nodes (spec volcano-plugins 22), outside the cycle.

Each poll sends one request a metric, for all nodes. A source that does not answer is logged once until it answers
again. Meanwhile the last values keep their old ``at``, by which plugins ignore them when they are too old.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from strato.api.quantity import milli
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.decoding import UNDECODABLE
from strato.errors import StratoError, one_line
from strato.http.fetch import fetch
from strato.http.tls import client_context
from strato.scheduler.cache.ingest import go_bool
from strato.scheduler.cache.usage import ADAPTOR, ELASTICSEARCH, PROMETHEUS, WINDOW, NodeUsage, Usages
from strato.units import duration_seconds

_log = logging.getLogger(__name__)

_DEFAULT_SECONDS: Final = 30.0
_ANSWER_LIMIT: Final = 1 << 20
_MOST_NODES: Final = 10_000

CPU_QUERY: Final = (
    "avg_over_time(clamp_min(100 - (avg by (instance) "
    f'(rate(node_cpu_seconds_total{{mode="idle"}}[5m])) * 100), 0)[{WINDOW}:30s])'
)
MEMORY_QUERY: Final = (
    f"100*avg_over_time(((1-node_memory_MemAvailable_bytes/node_memory_MemTotal_bytes))[{WINDOW}:30s])"
)

Percent = dict[str, float]
"""By node name."""


class UsageSource:
    """Polls the source that the ``metrics`` section of the configuration names.

    Args:
        found: Called after every successful poll with a function that updates ``usages``; a session may defer the call.
        timeout_seconds: How long one request may take.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        usages: Usages,
        metrics: Callable[[], Mapping[str, str]],
        found: Callable[[Callable[[], None]], None],
        timeout_seconds: float = 10.0,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._usages = usages
        self._metrics = metrics
        self._found = found
        self._timeout = timeout_seconds
        self._failing = ""

    async def run(self) -> None:
        """Poll until cancelled; the interval is the one configured at start."""
        self._usages.interval_seconds = interval = interval_seconds(self._metrics())
        while True:
            await self.poll()
            await self._clock.sleep(interval)

    async def poll(self) -> None:
        """Poll once."""
        metrics = self._metrics()
        ask = self._asker(metrics)
        if ask is None:
            return
        try:
            async with asyncio.timeout(self._timeout):
                cpu, memory = await ask(metrics)
        except (*UNDECODABLE, StratoError, OSError, ValueError, KeyError, TypeError, TimeoutError) as error:
            text = one_line(error)
            self._report(text if isinstance(error, OSError) else f"{type(error).__name__}: {text}")
            return
        self._failing = ""
        at = self._clock.now()
        names = cpu.keys() & memory.keys()
        usages = {n: NodeUsage({WINDOW: cpu[n]}, {WINDOW: memory[n]}, at) for n in names}
        self._found(lambda: self._usages.take(usages))

    def _report(self, problem: str) -> None:
        """Log that the source fails, once until it works again."""
        if not self._failing:
            _log.warning("node usage not read: source=%s: %s", self._metrics().get("type", ""), problem)
        self._failing = problem

    def _asker(
        self, metrics: Mapping[str, str]
    ) -> Callable[[Mapping[str, str]], Awaitable[tuple[Percent, Percent]]] | None:
        askers = {PROMETHEUS: self._prometheus, ADAPTOR: self._adaptor, ELASTICSEARCH: self._elasticsearch}
        return askers.get(metrics.get("type", ""))

    async def _prometheus(self, metrics: Mapping[str, str]) -> tuple[Percent, Percent]:
        url = metrics.get("address", "").rstrip("/") + "/api/v1/query"
        out = []
        for query in (CPU_QUERY, MEMORY_QUERY):
            body = urlencode({"query": query}).encode()
            answer = await _post(metrics, url, body, "application/x-www-form-urlencoded")
            rows = answer["data"]["result"]
            out.append({str(r["metric"].get("instance", "")): float(r["value"][1]) for r in reversed(rows)})
        return out[0], out[1]

    async def _adaptor(self, metrics: Mapping[str, str]) -> tuple[Percent, Percent]:
        out = []
        for name in ("node_cpu_usage_avg", "node_memory_usage_avg"):
            path = f"/apis/custom.metrics.k8s.io/v1beta2/nodes/*/{name}"
            answer = msgspec.json.decode(await self._cluster.raw("GET", path))
            out.append({i["describedObject"]["name"]: milli(i["value"]) / 10.0 for i in answer["items"]})
        return out[0], out[1]

    async def _elasticsearch(self, metrics: Mapping[str, str]) -> tuple[Percent, Percent]:
        index = metrics.get("elasticsearch.index") or "metricbeat-*"
        host = metrics.get("elasticsearch.hostnameFieldName") or "host.hostname"
        averages = {
            "cpu": {"avg": {"field": "host.cpu.usage"}},
            "mem": {"avg": {"field": "system.memory.actual.used.pct"}},
        }
        body = {
            "size": 0,
            "query": {"range": {"@timestamp": {"gte": f"now-{WINDOW}", "lt": "now"}}},
            "aggs": {"nodes": {"terms": {"field": host, "size": _MOST_NODES}, "aggs": averages}},
        }
        url = f"{metrics.get('address', '').rstrip('/')}/{index}/_search"
        answer = await _post(metrics, url, msgspec.json.encode(body), "application/json")
        buckets = answer["aggregations"]["nodes"]["buckets"]
        cpu = {str(b["key"]): float(b["cpu"]["value"] or 0.0) * 100.0 for b in buckets}
        memory = {str(b["key"]): float(b["mem"]["value"] or 0.0) * 100.0 for b in buckets}
        return cpu, memory


def interval_seconds(metrics: Mapping[str, str]) -> float:
    """Return the polling interval; 30 s when it is missing or senseless."""
    try:
        seconds = duration_seconds(metrics.get("interval") or "30s")
    except ValueError:
        return _DEFAULT_SECONDS
    return seconds if seconds > 0 else _DEFAULT_SECONDS


async def _post(metrics: Mapping[str, str], url: str, body: bytes, content_type: str) -> Any:
    """Ask the source and decode its answer.

    Raises:
        OSError: The source cannot be reached, answers with an error, or with more than `_ANSWER_LIMIT` bytes.
        ValueError: The URL is invalid.
        *UNDECODABLE: The answer is no JSON.
    """
    headers = [("Content-Type", content_type)]
    user = metrics.get("elasticsearch.username")
    if user:
        pair = f"{user}:{metrics.get('elasticsearch.password', '')}".encode()
        headers.append(("Authorization", f"Basic {base64.b64encode(pair).decode()}"))
    unchecked = go_bool(metrics.get("tls.insecureSkipVerify", "")) is True
    tls = client_context(insecure=True) if unchecked else None
    answer = await fetch(url, "POST", headers=headers, body=body, tls=tls, limit_bytes=_ANSWER_LIMIT)
    if answer.status != 200:
        raise OSError(f"answered {answer.status}: {answer.body[:200].decode(errors='replace')}")
    return msgspec.json.decode(answer.body)
