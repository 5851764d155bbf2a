"""The server with and without what it remembers: the same answers, and the same bytes in the store.

``python -m tests.attack.fastpaths --count N --seed S``. Each write goes to two servers with the same clock and chance:
one as it is, one that looks at every write as a whole (`in_memory_server(memoises=False)`). Objects are alike, as a
gang's are, so that steps are skipped, and each is spoilt a little by chance: members left out, added, repeated,
of wrong types, too long, in another order, with other letters. What counts as a finding: status or body of an answer
differ, or what is stored, or the answer is an internal error.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import sys
from collections import Counter
from typing import Any

from strato.admission import Chain
from strato.api.wire import Request, Response, User
from strato.clock import VirtualClock
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server

Json = dict[str, Any]
ADMIN = User("admin", ("system:masters", "system:authenticated"))
MERGE, PATCH, STRATEGIC = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
)
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_ROUND = 200
"""Writes until both servers are made anew."""
_ODD: tuple[Any, ...] = (
    "", "x", "x" * 64, "x" * 300, "A_b.c", "-x", "x-", "ü", "\u2028", "a b", 'quo"te', "back\\slash", "\x7f",
    "\ud83d\ude00", None, 0, 1.5, True, [], {}, ["a"], {"a": "b"}, "2026-01-01T00:00:00Z", "1Gi", -1, 1 << 40,
)  # fmt: skip
_EXTRA = (
    "generateName", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "finalizers",
    "generation", "selfLink", "ownerReferences", "namespace", "unknown", "labels", "annotations", "name",
)  # fmt: skip


def _pod(rng: random.Random) -> Json:
    containers = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": rng.choice(("1", "1000m"))}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {"schedulerName": "volcano", "containers": containers},
    }


def _job(rng: random.Random) -> Json:
    template = {"spec": _pod(rng)["spec"]}
    spec = {
        "minAvailable": 1,
        "schedulerName": "volcano",
        "tasks": [{"name": "t", "replicas": 1, "template": template}],
    }
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {}, "spec": spec}


def _group(_: random.Random) -> Json:
    spec = {"minMember": 2, "queue": "default"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {}, "spec": spec}


def _lease(_: random.Random) -> Json:
    spec = {"holderIdentity": "n", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 40}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}, "spec": spec}


_KINDS = ((PODS, _pod), (PODS, _pod), (JOBS, _job), (GROUPS, _group), (LEASES, _lease))
_LARGE = "v" * 1000


def _metadata(rng: random.Random, name: str, crowd: int) -> Json:
    """Return metadata as a controller writes them; those of a crowd have the same form."""
    meta: Json = {"name": name}
    if crowd & 1:
        meta["labels"] = {"app": rng.choice("abc"), "volcano.sh/job-name": name}
    if crowd & 2:
        meta["annotations"] = {"scheduling.k8s.io/group-name": name, "note": rng.choice(("", "x", "a b"))}
    if crowd & 4:
        owner = {"apiVersion": "v1", "kind": "Job", "name": name, "uid": f"u-{name}", "controller": True}
        meta["ownerReferences"] = [owner]
    if crowd == 8:  # many annotations: each is short enough, and all together may be too long
        text = _LARGE if rng.random() < 0.3 else rng.choice(("a", "bc"))
        meta["annotations"] = {f"k{number}": text for number in range(300)}
    return meta


def _spoil(rng: random.Random, obj: Any) -> None:
    """Change something somewhere."""
    target, path = obj, 0
    while isinstance(target, dict | list) and target and path < 6:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = rng.choice(keys)
        if rng.random() < 0.4 or not isinstance(target[key], dict | list):
            act = rng.random()
            if act < 0.3:
                del target[key]
            elif act < 0.8 or isinstance(target, list):
                target[key] = copy.deepcopy(rng.choice(_ODD))
            else:
                target[str(rng.choice(("extra", "Ä", "a/b", "x" * 400)))] = copy.deepcopy(rng.choice(_ODD))
            return
        target, path = target[key], path + 1


class Pair:
    """Two servers that are told the same."""

    def __init__(self, seed: int) -> None:
        self.clocks = [VirtualClock(), VirtualClock()]
        self.servers: list[ApiServer] = [
            in_memory_server(clock, random.Random(seed), chain=Chain(), memoises=short)
            for clock, short in zip(self.clocks, (True, False), strict=True)
        ]
        self.names: list[tuple[str, str]] = []

    async def send(self, method: str, path: str, body: bytes, media: str, query: Json | None = None) -> list[Response]:
        """Return both answers."""
        return [
            await server.handle(Request(method, path, dict(query or {}), {"content-type": media}, body, ADMIN))
            for server in self.servers
        ]


class Attack:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.pair = Pair(seed)
        self.number = 0

    async def begin(self) -> None:
        """Make both servers anew."""
        self.pair = Pair(self.rng.getrandbits(32))
        await self._both("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
        await self._both("POST", "/apis/scheduling.volcano.sh/v1beta1/queues", {**queue, "spec": {"weight": 1}})
        self.crowds = [(*self.rng.choice(_KINDS), self.rng.choice((0, 1, 2, 3, 4, 5, 7, 8))) for _ in range(3)]
        self.templates = {path: make(self.rng) for path, make, _ in self.crowds}

    async def _both(
        self, method: str, path: str, body: Any, media: str = "application/json", query: Json | None = None
    ) -> int:
        sent = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        first, second = await self.pair.send(method, path, sent, media, query)
        self.counts[f"{method} {'accepted' if first.status < 300 else 'refused'}"] += 1
        if (first.status, first.body) != (second.status, second.body) or first.status >= 500:
            self.findings.append(
                f"{method} {path} {sent[:600]!r}: {first.status} {bytes(first.body)[:400]!r} "
                f"but {second.status} {bytes(second.body)[:400]!r}"
            )
        return first.status

    async def write(self) -> None:
        """Make one random write."""
        self.number += 1
        if self.rng.random() < 0.1:
            for clock in self.pair.clocks:
                clock.advance(1.0)
        action = self.rng.random()
        if action < 0.6 or not self.pair.names:
            await self._create()
        elif action < 0.75:
            await self._bind()
        elif action < 0.95:
            await self._patch()
        else:
            path, name = self.rng.choice(self.pair.names)
            await self._both("DELETE", f"{path}/{name}", b"")

    async def _create(self) -> None:
        rng = self.rng
        path, _, crowd = rng.choice(self.crowds)
        name = f"o-{self.number}" if rng.random() < 0.95 or not self.pair.names else rng.choice(self.pair.names)[1]
        obj = copy.deepcopy(self.templates[path])
        obj["metadata"] = _metadata(rng, name, crowd)
        if rng.random() < 0.3:
            if rng.random() < 0.5:
                obj["metadata"][rng.choice(_EXTRA)] = copy.deepcopy(rng.choice(_ODD))
            else:
                _spoil(rng, obj["metadata"] if rng.random() < 0.7 else obj)
        separators = (",", ":") if rng.random() < 0.8 else (", ", ": ")
        body = json.dumps(obj, separators=separators, ensure_ascii=rng.random() < 0.7).encode(errors="surrogatepass")
        if await self._both("POST", path, body) == 201:
            self.pair.names.append((path, name))
            await self._compare(path, name)

    async def _bind(self) -> None:
        rng = self.rng
        _, name = rng.choice(self.pair.names)
        body: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n1"}}
        if rng.random() < 0.3:
            body["metadata"]["annotations"] = {"gpu": "0", "k": _LARGE if rng.random() < 0.5 else "v"}
        if rng.random() < 0.3:
            _spoil(rng, body)
        await self._both("POST", f"{PODS}/{name}/binding", body)
        await self._compare(PODS, name)

    async def _patch(self) -> None:
        rng = self.rng
        path, name = rng.choice(self.pair.names)
        status = self._status(path)
        if rng.random() < 0.3:
            _spoil(rng, status)
        if path == LEASES and rng.random() < 0.8:
            time = rng.choice(("2026-01-01T00:00:01.000000Z", "2026-02-30T00:00:00.000000Z", "x", "", 5, None))
            await self._both("PATCH", f"{path}/{name}", {"spec": {"renewTime": time}}, MERGE)
        elif rng.random() < 0.6:
            body: Json = {"status": status}
            if rng.random() < 0.2:
                body["metadata"] = {"uid": rng.choice(("", "other"))}
            elif rng.random() < 0.1:
                body["metadata"] = {"annotations": {"a": _LARGE}}
            media = rng.choice((MERGE, MERGE, STRATEGIC))
            place = f"{path}/{name}/status" if rng.random() < 0.8 else f"{path}/{name}"
            await self._both("PATCH", place, body, media)
        else:
            operations = [{"op": rng.choice(("add", "replace", "test")), "path": "/status", "value": status}]
            if rng.random() < 0.5:
                part = rng.choice(("/status/phase", "/status/conditions", "/status/x/y", "/metadata/labels"))
                operations.append({"op": "add", "path": part, "value": rng.choice(_ODD)})
            await self._both("PATCH", f"{path}/{name}/status", operations, PATCH)
        await self._compare(path, name)

    def _status(self, path: str) -> Json:
        rng = self.rng
        phase = rng.choice(("Running", "Pending", "Succeeded", "Inqueue"))
        if path == JOBS:
            return {"state": {"phase": phase}, "running": rng.randrange(3), "minAvailable": 1}
        if path == GROUPS:
            return {"phase": phase, "running": rng.randrange(3)}
        condition = {
            "type": "Ready",
            "status": rng.choice(("True", "False")),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        return {"phase": phase, "podIP": "10.0.0.1", "conditions": [condition]}

    async def _compare(self, path: str, name: str) -> None:
        await self._both("GET", f"{path}/{name}", b"")


async def attack(count: int, seed: int, *, progress: bool = False) -> Attack:
    """Make so many writes to both servers."""
    run = Attack(seed)
    for number in range(count):
        if number % _ROUND == 0:
            await run.begin()
        await run.write()
        if progress and (number + 1) % 10_000 == 0:
            print(f"{number + 1} writes, {len(run.findings)} findings", file=sys.stderr, flush=True)
    return run


def main() -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run = asyncio.run(attack(options.count, options.seed, progress=True))
    for name, number in sorted(run.counts.items()):
        print(f"{name:<20}{number:>10}")
    for finding in run.findings[:20]:
        print(finding)
    print(f"{len(run.findings)} findings in {options.count} writes")
    return int(bool(run.findings))


if __name__ == "__main__":
    sys.exit(main())
