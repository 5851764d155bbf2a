"""One user floods in every way there is; another one is served meanwhile, and nothing is left behind.

    python -m tests.attack.flood [--count 400] [--seed 1]

A real server on a socket, its flow control and its limits; attackers and the other user speak HTTP as bytes. Each round
is one attack beside which the other user asks so many times. Findings: an answer that is no success for the other user,
more turns of the loop before it than a few, 5xx or a 429 without Retry-After for the attacker, more bytes, unread or of
requests, than the limits allow, seats, watchers or connections that stay taken.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from strato.api.wire import Request, User
from strato.clock import SystemClock
from strato.errors import Unauthorized
from strato.http import server as http_server
from strato.http.limits import HELD_BYTES
from strato.http.listen import HttpServer, serve
from strato.http.parser import MAX_BODY_BYTES
from strato.server.embedded import open_server
from strato.server.flowcontrol import dispatch
from strato.server.http import create_app

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 3000
OBJECT_BYTES = 1024
PROBES = 25
"""How often the other user asks beside each attack."""
MOST_TURNS = 30
"""Turns, of requests and slices of others, between a request and its answer. Each takes some milliseconds at most."""
MOST_UNREAD = http_server.CHUNK_BYTES + (128 << 10) + OBJECT_BYTES
"""Bytes a connection may hold for its reader: a piece, and what the transport takes before it says stop."""
USERS = {name: User(name, ("system:authenticated",)) for name in ("mallory", "alice")}


@dataclass
class Findings:
    """What was seen."""

    counts: Counter[str] = field(default_factory=Counter)
    worst: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def most(self, what: str, value: int) -> None:
        """Note the largest value of something."""
        self.worst[what] = max(self.worst[what], value)


class Target:
    """A server with objects, over plain HTTP."""

    def __init__(self, http: HttpServer, server: object, findings: Findings, rng: random.Random) -> None:
        self.http, self.findings, self.rng = http, findings, rng
        self.server = server
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the two halves of a connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http.port)
        self.writers.append(writer)
        return reader, writer

    async def leave(self) -> None:
        """End all connections."""
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)

    def request(
        self, path: str, method: str = "GET", user: str = "mallory", body: bytes = b"", more: str = ""
    ) -> bytes:
        """Return the text of a request."""
        length = f"content-length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\nHost: h\r\nx-user: {user}\r\n{more}{length}\r\n".encode() + body

    async def answers(self, reader: asyncio.StreamReader, count: int) -> None:
        """Read answers and note what they are."""
        for _ in range(count):
            status, head = await read_answer(reader)
            self.findings.counts[f"mallory {status}"] += 1
            if status >= 500 or (status == 429 and b"retry-after" not in head):
                self.findings.wrong.append(f"mallory was answered {head!r}")


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one answer to its end; return its status and head."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0]))
    return int(head.split(b" ", 2)[1]), head


# Attacks: each goes on until it is cancelled.


async def many_at_once(target: Target) -> None:
    """Many requests ahead on many connections, and all answers read."""

    async def one() -> None:
        reader, writer = await target.connect()
        while True:
            count = target.rng.randint(1, 64)
            writer.write(target.request(f"{MAPS}/m{target.rng.randrange(OBJECTS):05}") * count)
            await target.answers(reader, count)

    await asyncio.gather(*(one() for _ in range(target.rng.choice((60, 400)))))


async def lists(target: Target) -> None:
    """Lists, tables and selections of everything, read as fast as they come."""
    forms = ("", "accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n", "accept-encoding: gzip\r\n")

    async def one() -> None:
        reader, writer = await target.connect()
        while True:
            query = target.rng.choice(("", "?labelSelector=none=1", "?limit=700", "?labelSelector=half=1"))
            writer.write(target.request(MAPS + query, more=target.rng.choice(forms)))
            await target.answers(reader, 1)

    await asyncio.gather(*(one() for _ in range(10)))


async def unread_lists(target: Target) -> None:
    """Lists asked for again and again, of which nothing is read."""
    held = [await target.connect() for _ in range(40)]
    for _, writer in held:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport
        writer.write(target.request(MAPS) * 4)
    await asyncio.Event().wait()


async def unread_watches(target: Target) -> None:
    """Watches of everything, of which nothing is read."""
    query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    held = [await target.connect() for _ in range(40)]
    for _, writer in held:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport
        writer.write(target.request(MAPS + query))
    await asyncio.Event().wait()


async def broken_off(target: Target) -> None:
    """Requests whose client is gone before the answer."""
    while True:
        _, writer = await target.connect()
        writer.write(target.request(MAPS) + target.request(f"{MAPS}/m00001") * 20)
        for _ in range(target.rng.randrange(5)):
            await asyncio.sleep(0)
        writer.transport.abort()


async def half_requests(target: Target) -> None:
    """Heads and bodies that never end, and connections on which nothing comes."""
    parts = (b"", b"GET /api HTTP/1.1\r\nx", target.request(MAPS, "POST", body=bytes(1000))[:-500])
    held = []
    while True:
        held.append(await target.connect())
        held[-1][1].write(target.rng.choice(parts))


async def half_bodies(target: Target) -> None:
    """Bodies of the largest size of which the last byte never comes, and more requests behind refused ones."""

    async def one() -> None:
        reader, writer = await target.connect()
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                writer.write(target.request(MAPS, "POST", body=bytes(MAX_BODY_BYTES))[: -target.rng.randint(1, 1000)])
                await writer.drain()
                await target.answers(reader, 1)  # a refusal: the rest of the body ends with it
                writer.close()
                reader, writer = await target.connect()

    await asyncio.gather(*(one() for _ in range(60)))


async def deletions(target: Target) -> None:
    """Objects made and deleted all at once, again and again."""

    async def one(number: int) -> None:
        reader, writer = await target.connect()
        while True:
            for made in range(50):
                labels = {"by": f"d{number}"}
                body = msgspec.json.encode({"metadata": {"name": f"d{number}-{made}", "labels": labels}})
                writer.write(target.request(MAPS, "POST", body=body))
            await target.answers(reader, 50)
            writer.write(target.request(f"{MAPS}?labelSelector=by=d{number}", "DELETE"))
            await target.answers(reader, 1)

    await asyncio.gather(*(one(number) for number in range(5)))


ATTACKS: dict[str, Callable[[Target], Coroutine[object, object, None]]] = {
    "many at once": many_at_once,
    "lists": lists,
    "unread lists": unread_lists,
    "unread watches": unread_watches,
    "broken off": broken_off,
    "half requests": half_requests,
    "half bodies": half_bodies,
    "deletions": deletions,
}


class Campaign:
    """Rounds of attacks on one server."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.findings = Findings()

    async def run(self, count: int, progress: Callable[[int], None] = lambda done: None) -> Findings:
        """Attack so many times."""
        self.server, _ = open_server(SystemClock(), random.Random(1), None)
        self.dispatcher = self.server.state.flows.dispatcher
        for number in range(OBJECTS):
            labels = {"half": str(number % 2)}
            body = {"metadata": {"name": f"m{number:05}", "labels": labels}, "data": {"x": "x" * OBJECT_BYTES}}
            sent = msgspec.json.encode(body)
            await self.server.handle(Request("POST", MAPS, {}, {}, sent, USERS["alice"]))

        def authenticate(headers: object, peer: object) -> User:
            name = headers.get("x-user", "")  # type: ignore[attr-defined]  # a mapping
            if name not in USERS:
                raise Unauthorized("Unauthorized")
            return USERS[name]

        self.http = await serve(create_app(self.server, authenticate, flows=self.server.state.flows))
        self.connections = self.http.connections
        try:
            names = list(ATTACKS)
            for done in range(count):
                await self._round(names[done % len(names)])
                progress(done + 1)
        finally:
            await self.http.stop()
        return self.findings

    async def _round(self, name: str) -> None:
        target = Target(self.http, self.server, self.findings, self.rng)
        attack = asyncio.ensure_future(ATTACKS[name](target))
        try:
            await self._probe(target, name)
        finally:
            attack.cancel()
            with suppress(asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
                await attack
        await target.leave()
        for _ in range(300):
            await asyncio.sleep(0)
            if self._is_calm():
                break
        else:
            self.findings.wrong.append(f"after {name!r}: {self._left()}")
        self.findings.counts["rounds"] += 1

    def _left(self) -> str:
        bucket, flows = self.server.store.bucket("configmaps"), self.dispatcher.flows.values()
        seats = sum(dispatch.SEATS - flow.free_seats for flow in flows)
        waiting = sum(len(flow.requests) + len(flow.slices) for flow in flows)
        return f"{len(bucket.watchers)} watchers, {seats} seats, {waiting} waiting, {len(self.connections.open)} open"

    def _is_calm(self) -> bool:
        return self._left() == "0 watchers, 0 seats, 0 waiting, 0 open"

    async def _probe(self, target: Target, name: str) -> None:
        """Ask as somebody else, and look at what the attacker takes."""
        findings, dispatcher = self.findings, self.dispatcher
        reader, writer = await target.connect()
        for number in range(PROBES):
            for _ in range(self.rng.randrange(20)):
                await asyncio.sleep(0)
            path = f"{MAPS}/m{self.rng.randrange(OBJECTS):05}"
            patch = b'{"data":{"y":"%d"}}' % number
            media = "content-type: application/merge-patch+json\r\n"
            is_read = number % 3 > 0
            sent = (
                target.request(path, user="alice") if is_read else target.request(path, "PATCH", "alice", patch, media)
            )
            rounds = dispatcher.rounds
            writer.write(sent)
            status, _ = await asyncio.wait_for(read_answer(reader), 60)
            waited = dispatcher.rounds - rounds
            findings.counts[f"alice {status}"] += 1
            findings.most(f"turns before alice, {name}", waited)
            if status != 200:
                findings.wrong.append(f"beside {name!r} alice was answered {status}")
            if waited > MOST_TURNS:
                findings.wrong.append(f"beside {name!r} alice waited for {waited} turns")
            self._look_at_memory(name)
        writer.close()

    def _look_at_memory(self, name: str) -> None:
        unread = [one.unread_bytes for one in self.connections.open]
        self.findings.most("unread bytes of a connection", max(unread, default=0))
        self.findings.most("connections", len(unread))
        held = self.connections.held.of["mallory"]
        self.findings.most("bytes of requests of mallory", held)
        if held > HELD_BYTES // 2:
            self.findings.wrong.append(f"beside {name!r} mallory's requests hold {held} bytes")
        if max(unread, default=0) > MOST_UNREAD:
            self.findings.wrong.append(f"beside {name!r} a connection holds {max(unread)} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=400, help="rounds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def progress(done: int) -> None:
        if done % len(ATTACKS) == 0:
            print(f"{done} of {options.count} rounds", file=sys.stderr, flush=True)

    findings = asyncio.run(Campaign(options.seed).run(options.count, progress))
    for title, found in (("count", findings.counts), ("largest", findings.worst)):
        print(f"\n{title}")
        for what, value in sorted(found.items()):
            print(f"  {what:<45} {value:>10,}")
    for wrong in findings.wrong[:20]:
        print(f"FOUND: {wrong}")
    return int(bool(findings.wrong))


if __name__ == "__main__":
    sys.exit(main())
