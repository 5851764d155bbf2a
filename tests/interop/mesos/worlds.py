"""A master in memory: agents by the word, a cluster that does what it is told, frameworks that listen."""

from __future__ import annotations

import random
import stat
import uuid
from collections.abc import AsyncIterator
from typing import Any

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.allocator import Allocator, AllocatorOptions
from strato.interop.mesos.endpoints.files import FileStatus
from strato.interop.mesos.endpoints.service import MasterEndpoints
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master.agents import Observed, UnitFacts
from strato.interop.mesos.master.core import Master
from strato.interop.mesos.master.effects import Kill, PodLaunch
from strato.interop.mesos.master.model import AgentFacts
from strato.interop.mesos.master.sandboxes import Folder, Place
from strato.interop.mesos.master.state import MasterIdentity, MasterOptions
from strato.interop.mesos.resourcetext import parse
from strato.interop.mesos.wire import JSON, RecordReader, message

EVENT = message("scheduler.Event")


class Listener:
    """A stream that keeps what it is sent."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.has_finished = False

    def send(self, event: Json) -> None:
        # as on the wire, in both forms: what cannot be encoded must not be sent
        assert EVENT.from_protobuf(EVENT.to_protobuf(event)) == EVENT.from_value(event)
        self.events.append(event)

    def finish(self, *, delayed: bool = False) -> None:
        self.has_finished = True

    def take(self, kind: str = "") -> list[Json]:
        """Return the events so far, of one type or all, and forget all."""
        events, self.events = self.events, []
        return [event for event in events if kind in ("", event["type"])]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]


class MemoryFiles:
    """Files by the places that paths lead to."""

    def __init__(self) -> None:
        self.contents: dict[Place, bytes] = {}

    async def status(self, name: str, place: Place) -> FileStatus:
        if isinstance(place, Folder):
            return FileStatus(name, mode=stat.S_IFDIR | 0o755)
        return FileStatus(name, len(self._of(place)))

    async def entries(self, place: Place) -> list[FileStatus]:
        if isinstance(place, Folder):
            return [await self.status(name, one) for name, one in place.entries.items()]
        self._of(place)
        return []

    async def read(self, place: Place, offset: int, length: int) -> tuple[int, bytes]:
        if isinstance(place, Folder):
            raise IsADirectoryError
        data = self._of(place)
        return len(data), data[offset : offset + length]

    async def stream(self, place: Place) -> AsyncIterator[bytes]:
        yield self._of(place)

    def _of(self, place: Place) -> bytes:
        if isinstance(place, Folder) or place not in self.contents:
            raise FileNotFoundError
        return self.contents[place]


class World:
    """A master and its cluster."""

    def __init__(self, **options: Any) -> None:
        rng = random.Random(7)
        self.now = 1000.0
        self.launched: dict[str, PodLaunch] = {}
        self.killed: list[Kill] = []
        self.forgotten: list[str] = []
        self.files = MemoryFiles()
        identity = MasterIdentity(id="m", hostname="master", ip="127.0.0.1", port=5050, started_at=self.now)
        allocator = Allocator(AllocatorOptions(), rng)
        self.master = Master(
            identity, MasterOptions(**options), allocator, lambda: uuid.UUID(int=rng.getrandbits(128), version=4)
        )
        self.endpoints = MasterEndpoints({})
        self.endpoints.leads = True
        self.endpoints.serving = Serving(self.master, lambda: self.now, self.flush, self.files, lambda: None)

    @property
    def state(self) -> Any:
        return self.master.state

    def agent(self, name: str = "S0", resources: str = "cpus:4;mem:4096", **facts: Any) -> str:
        """Add a node, or change it."""
        self.master.set_agent(AgentFacts(name, name, name, "10.0.0.1", parse(resources), **facts), self.now)
        self.run()
        return name

    def run(self) -> None:
        """Do what the outbox says."""
        for _ in range(3):
            box = self.master.take_effects()
            for launch in box.launches:
                self.launched[launch.unit] = launch
            self.killed += box.kills
            self.forgotten += [forgotten.unit for forgotten in box.forgotten]
            for framework, offers in box.offered.items():
                self.master.offers.announce(framework, offers)

    async def flush(self) -> None:
        self.run()

    def advance(self, seconds: float = 1.0) -> None:
        """Let time pass; a batch run ends it."""
        self.now += seconds
        self.master.tick(self.now)
        self.master.allocate(self.now, batch=True)
        self.run()

    def subscribe(self, *, at: Listener | None = None, framework_id: str = "", **info: Any) -> tuple[Any, Listener]:
        """Subscribe a framework."""
        listener = at or Listener()
        given: Json = {"user": "u", "name": "n", **info}
        call: Json = {"type": "SUBSCRIBE", "subscribe": {"framework_info": given}}
        if framework_id:
            call["framework_id"] = given["id"] = {"value": framework_id}
        stream_id = str(self.state.new_uuid())
        framework = self.master.frameworks.subscribe(call, listener, stream_id, "", self.now)
        self.run()
        return framework, listener

    def call(self, framework: Any, kind: str, **body: Any) -> None:
        """Have a framework call."""
        self.master.call(framework, {"type": kind, kind.lower(): body}, self.now)
        self.run()

    def offers(self, listener: Listener) -> list[Json]:
        """Return the offers that a framework has been sent."""
        return [offer for event in listener.take("OFFERS") for offer in event["offers"]["offers"]]

    def launch(self, framework: Any, listener: Listener, *tasks: Json) -> list[str]:
        """Accept the first offer for tasks; return the pods made for them."""
        self.advance()
        offer = self.offers(listener)[0]
        before = set(self.launched)
        operation = {"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}
        self.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=[operation])
        return [unit for unit in self.launched if unit not in before]

    def observe(self, unit: str, state: str, **facts: Any) -> None:
        """Let a pod's only container be seen in a state."""
        ended = state in ("TASK_FINISHED", "TASK_FAILED")
        observed = Observed(state, facts.pop("message", ""), facts.pop("reason", ""))
        self.master.observe(unit, UnitFacts(f"uid-{unit}", (observed,), is_ended=ended, **facts), self.now)
        self.run()

    async def post(self, body: Json | bytes, path: str = "/api/v1/scheduler", **headers: str) -> Response:
        """Send a request to the master's endpoints."""
        import msgspec

        given = {"content-type": JSON, "accept": JSON, **{k.replace("_", "-"): v for k, v in headers.items()}}
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        kept = {name: value for name, value in given.items() if value}
        return await self.endpoints.handle(Request("POST", path, headers=kept, body=data))


def task(name: str = "t", agent: str = "S0", resources: Any = None, **fields: Any) -> Json:
    """Return a TaskInfo of a command."""
    amounts = {"cpus": 1.0, "mem": 64.0} if resources is None else resources
    listed = [{"name": key, "type": "SCALAR", "scalar": {"value": value}} for key, value in amounts.items()]
    info: Json = {"name": name, "task_id": {"value": name}, "agent_id": {"value": agent}, "resources": listed}
    return {**info, "command": {"value": "true"}, **fields} if "executor" not in fields else {**info, **fields}


def read_events(response: Response) -> list[Json]:
    """Return the events that a stream has now."""
    stream: Any = response.stream
    return [EVENT.from_json(record) for record in RecordReader().feed(stream.take())]
