"""The sandbox node with real processes, on the tiny API server of `fake_api`."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from strato.clock import SystemClock
from strato.node.restarts import Backoff
from strato.node.sandbox.node import SandboxNode
from strato.node.sandbox.settings import NodeOffer, NodePeriods, PodIsolation
from strato.server.logs import LogOptions
from tests.node.fake_api import FakeApi

QUICK = Backoff(base_seconds=0.05, cap_seconds=0.2)


async def until(what: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for real processes; the deadline only bounds a failing test."""
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.01)


class World:
    def __init__(self, api: FakeApi, node: SandboxNode) -> None:
        self.api = api
        self.node = node

    async def finished(self, name: str) -> dict[str, Any]:
        await until(lambda: self.api.phase(name) in ("Succeeded", "Failed"))
        return self.api.objects[f"/api/v1/namespaces/default/pods/{name}"]["status"]

    async def log(self, name: str, container: str = "main", **options: Any) -> str:
        uid = self.api.objects[f"/api/v1/namespaces/default/pods/{name}"]["metadata"]["uid"]
        chunks = [c async for c in self.node.logs.read_log("default", name, uid, container, LogOptions(**options))]
        return b"".join(chunks).decode()

    def sh(self, name: str, script: str, **spec: Any) -> None:
        container = spec.pop("container", {})
        main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script], **container}
        self.api.create_pod(name, "here", containers=[main], **spec)

    async def events(self) -> list[tuple[str, str]]:
        await self.node._recorder.flush()
        found = [o for key, o in self.api.objects.items() if "/events/" in key]
        return [(o["reason"], o["message"]) for o in found]


def _settings(kind: type[Any], base: dict[str, Any], options: dict[str, Any]) -> Any:
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**base, **{name: options.pop(name) for name in names if name in options})


@asynccontextmanager
async def running(path: Path, api: FakeApi, **options: Any) -> AsyncIterator[World]:
    node = SandboxNode(
        api.cluster(),
        SystemClock(),
        random.Random(1),
        data_dir=path,
        offer=_settings(NodeOffer, {"name": "here"}, options),
        isolation=_settings(PodIsolation, {}, options),
        periods=_settings(NodePeriods, {"backoff": QUICK}, options),
    )
    assert not options, f"no such settings: {options}"
    task = asyncio.create_task(node.run())
    try:
        await until(lambda: node.registered.is_set() or task.done())
        if task.done():
            task.result()
        yield World(api, node)
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def GO_VOLUME(tmp_path: Path) -> dict[str, Any]:  # noqa: N802 - reads as a constant in its test
    (tmp_path / "go").mkdir(exist_ok=True)
    return {
        "volumes": [{"name": "go", "hostPath": {"path": str(tmp_path / "go")}}],
        "container": {"volumeMounts": [{"name": "go", "mountPath": "/go"}]},
    }
