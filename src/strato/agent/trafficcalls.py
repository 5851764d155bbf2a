"""Request less traffic of a load balancer: signed calls with retries, in background tasks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from strato.agent.decisions.traffic import FULL_PERCENT, ServingPod, choose_weights, regain
from strato.agent.events import ContainerEvent, HostEvent, Workload
from strato.agent.policy import WebhookOptions
from strato.clock import Clock, format_time
from strato.decoding import UNDECODABLE
from strato.errors import one_line
from strato.http.client import Unsendable
from strato.http.fetch import fetch

_log = logging.getLogger(__name__)

_HOLDS_SECONDS: Final = 120.0
_STEP_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = (1.0, 2.0, 4.0)
_TIMEOUT_SECONDS: Final = 2.0
_MOST_ANSWER_BYTES: Final = 256 << 10


class _Applied(msgspec.Struct, frozen=True):
    uid: str
    weight_percent: int = msgspec.field(name="weightPercent")


class _Answer(msgspec.Struct, frozen=True):
    applied: tuple[_Applied, ...] = ()


class TrafficCalls:
    """Sends calls to the load balancer, and keeps the requested weights by pod.

    Args:
        node: Name of the pods' node.
        secret: Key of the signatures; if empty, calls are not signed.
    """

    def __init__(self, clock: Clock, random: Random, node: str, secret: bytes = b"") -> None:
        self._clock, self._random, self._node, self._secret = clock, random, node, secret
        self._weights: dict[str, int] = {}
        self._asked_at: dict[str, float] = {}
        """Time of the last call in monotonic seconds, by resource."""
        self._running: set[asyncio.Task[None]] = set()
        self.codes: Counter[str] = Counter()
        """Number of calls by the answer's status; ``error`` if there was no answer."""

    def step(self, resource: str, value: float | None, host: HostEvent, options: WebhookOptions) -> None:
        """Start a call in the background if one is due.

        Args:
            resource: ``cpu`` or ``network``.
            value: Used fraction while the resource is hot; None after it has cooled down.
            host: The host's event with its containers.
            options: The hook to call.
        """
        now = self._clock.monotonic()
        last = self._asked_at.get(resource)
        is_hot = value is not None
        if not options.url or (last is not None and now - last < (_HOLDS_SECONDS / 2 if is_hot else _STEP_SECONDS)):
            return
        pods = _serving(host.containers, self._weights)
        if value is not None:
            self._weights |= choose_weights((value - options.target) * host.capacity_cores, pods)
        else:
            self._weights = regain(self._weights)
        if not self._weights:
            self._asked_at.pop(resource, None)
            return
        self._asked_at[resource] = now
        is_done = not is_hot and all(weight == FULL_PERCENT for weight in self._weights.values())
        body = self._body(resource, value, host, options.target, level="ok" if is_done else "hot")
        if is_done:
            self._weights.clear()
            self._asked_at.pop(resource)
        task = asyncio.ensure_future(self._call(options.url, body))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def is_relieved(self, resource: str) -> bool:
        """Return whether no reduction of traffic is in force because of a resource."""
        return resource not in self._asked_at

    async def close(self) -> None:
        """Cancel the calls that are under way."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _body(
        self, resource: str, value: float | None, host: HostEvent, target: float, *, level: str
    ) -> dict[str, Any]:
        used = host.cpu if resource == "cpu" else max(host.network_receive, host.network_send)
        by_uid = {one.pod_uid: one for one in host.containers}
        pods = [
            {
                "namespace": by_uid[uid].namespace,
                "name": by_uid[uid].pod,
                "uid": uid,
                "ip": by_uid[uid].ip,
                "service": by_uid[uid].service,
                "priority": by_uid[uid].priority,
                "usedCores": round(sum(one.used_cores for one in host.containers if one.pod_uid == uid), 3),
                "weightPercent": weight,
            }
            for uid, weight in sorted(self._weights.items())
            if uid in by_uid
        ]
        return {
            "version": "v1",
            "id": str(uuid.UUID(int=self._random.getrandbits(128), version=4)),
            "node": self._node,
            "resource": resource,
            "level": level,
            "utilisation": round(used if value is None else value, 4),
            "target": target,
            "expiresAt": format_time(host.at + _HOLDS_SECONDS),
            "pods": pods,
        }

    async def _call(self, url: str, body: Mapping[str, Any]) -> None:
        data = msgspec.json.encode(body)
        headers = [("content-type", "application/json"), ("idempotency-key", str(body["id"]))]
        if self._secret:
            headers.append(("x-strato-signature", hmac.new(self._secret, data, hashlib.sha256).hexdigest()))
        for wait in (*_RETRY_SECONDS, None):
            code, answer = await self._once(url, headers, data)
            self.codes[code] += 1
            if code == "200":
                self._take(answer)
            if wait is None or not (code == "error" or code.startswith("5")):
                return
            await self._clock.sleep(wait)

    async def _once(self, url: str, headers: list[tuple[str, str]], data: bytes) -> tuple[str, bytes]:
        try:
            found = await fetch(
                url, "POST", headers=headers, body=data, limit_bytes=_MOST_ANSWER_BYTES, seconds=_TIMEOUT_SECONDS
            )
        except (OSError, Unsendable) as error:
            _log.warning("load balancer not asked: url=%s: %s", url, one_line(error))
            return "error", b""
        return str(found.status), found.body

    def _take(self, answer: bytes) -> None:
        """Record the weights that the balancer reports to have applied instead of the requested ones."""
        try:
            applied = msgspec.json.decode(answer, type=_Answer).applied
        except UNDECODABLE:
            return
        for one in applied:
            if one.uid in self._weights:
                self._weights[one.uid] = min(FULL_PERCENT, max(0, one.weight_percent))


def _serving(containers: Iterable[ContainerEvent], weights: Mapping[str, int]) -> list[ServingPod]:
    used: dict[str, float] = {}
    priorities: dict[str, int] = {}
    for one in containers:
        if one.workload is Workload.ONLINE:
            used[one.pod_uid] = used.get(one.pod_uid, 0.0) + one.used_cores
            priorities[one.pod_uid] = one.priority
    return [
        ServingPod(
            uid=uid, priority=priorities[uid], used_cores=cores, weight_percent=max(1, weights.get(uid, FULL_PERCENT))
        )
        for uid, cores in used.items()
    ]
