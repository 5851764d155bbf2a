"""Send hostile requests to a real API server over HTTPS: every route, verb and type, and bytes that are no requests.

A finding is: an answer of 5xx other than 501, 503, 504 and 505, a second of the server's CPU for one request, an answer
that does not come, a server that ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from strato.api import yamltext
from strato.api.kinds import Kind
from strato.server.schema import builtin, shapes
from tests.attack.cluster import Server
from tests.attack.mutations import RAW, Json, Mutator, Sent

GOLDEN = Path(__file__).parents[1] / "server/protobuf/golden/data"
OBJECTS = Path(__file__).with_name("objects.yaml")
CPU_SECONDS = 1.0
_PATIENCE_SECONDS = 15.0
_AHEAD, _AHEAD_BYTES = 32, 64 << 10
"""Requests sent before the first of them is answered, and what their bodies may weigh."""
_BY_CONTRACT = (501, 503, 504, 505)


class Lost(Exception):
    """The connection ended, or nothing came."""


@dataclass
class Findings:
    """What was sent and what went wrong, one example of each kind."""

    sent: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    worst_cpu: float = 0.0
    wrong: dict[str, str] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    """Those of the OpenAPI documents that requests were made for."""
    known_operations: set[str] = field(default_factory=set)

    def add(self, kind: str, example: str) -> None:
        """Note one; the first of its kind is shown."""
        self.times[kind] += 1
        if kind not in self.wrong:
            self.wrong[kind] = example
            print(f"FOUND {kind}\n  {example}", flush=True)

    def merge(self, other: Findings) -> None:
        """Take what another process found."""
        self.sent += other.sent
        self.answers += other.answers
        self.worst_cpu = max(self.worst_cpu, other.worst_cpu)
        self.wrong = other.wrong | self.wrong
        self.times += other.times
        self.operations |= other.operations
        self.known_operations |= other.known_operations

    def reached(self) -> str:
        """Say to how many operations requests were made."""
        return f"{len(self.operations)} of {len(self.known_operations)} operations"


class Wire:
    """One connection, opened again when it is gone."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        self._place = (place.hostname or "127.0.0.1", place.port or 443)
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._socket: ssl.SSLSocket | None = None
        self._rest = b""

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._socket is not None

    def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            Lost: They cannot be sent.
        """
        try:
            if self._socket is None:
                plain = socket.create_connection(self._place, _PATIENCE_SECONDS)
                self._socket = self._tls.wrap_socket(plain)
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise Lost(str(error) or type(error).__name__) from error

    def answer(self, *, is_head: bool = False) -> tuple[int, bytes]:
        """Return status and body of the next answer; of a stream only the status, and the connection ends.

        Raises:
            Lost: There is no answer.
        """
        try:
            return self._answer(is_head)
        except OSError as error:
            self.close()
            raise Lost(str(error) or type(error).__name__) from error

    def ask(self, data: bytes, *, is_head: bool = False) -> tuple[int, bytes]:
        """Send one request and return status and body of the answer.

        Raises:
            Lost: There is no answer.
        """
        self.send(data)
        return self.answer(is_head=is_head)

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(65536)
        if not data:
            raise OSError("closed without an answer")
        self._rest += data

    def _answer(self, is_head: bool) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status == 100:
            return self._answer(is_head)
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            self.close()  # a stream: that it began is enough
            return status, b""
        length = re.search(rb"content-length: (\d+)", lower)
        size = int(length[1]) if length and not is_head else 0
        while len(self._rest) < size:
            self._more()
        body, self._rest = self._rest[:size], self._rest[size:]
        if b"connection: close" in lower:
            self.close()
        return status, body


class Fuzzer:
    """Sends requests to one server and looks at it after each."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self.server, self.rng = server, rng
        self.findings = Findings()
        place = yamltext.load((server.home / "kubeconfig").read_text())
        self._token = str(place["users"][0]["user"]["token"])
        self.wire = Wire(place["clusters"][0]["cluster"]["server"])
        self._log_at = 0
        seeds, packed = _golden()
        self._keep_objects(seeds)
        resources = self._resources()
        self.mutator = Mutator(rng, resources, seeds, packed)

    def get(self, path: str) -> Json:
        """Return what the server says at a path."""
        status, body = self.wire.ask(Sent("GET", path).render(self._token))
        assert status == 200, (path, status, body[:200])
        return dict(json.loads(body))

    def _resources(self) -> list[tuple[str, str]]:
        """Return the path of every resource and subresource that discovery knows, and some that it does not."""
        found = [
            (path, "") for path in ("/api", "/apis", "/openapi/v3", "/version", "/metrics", "/logs", "/x", "/api/v1/x")
        ]
        groups = ["/api/v1"]
        for group in self.get("/apis")["groups"]:
            groups += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
        for base in groups:
            for one in self.get(base)["resources"]:
                plural, _, sub = one["name"].partition("/")
                top = f"{base}/namespaces/{{namespace}}/{plural}" if one["namespaced"] else f"{base}/{plural}"
                if not sub:
                    found += [(top, one["kind"]), (f"{top}/{{name}}", one["kind"])]
                    if one["namespaced"]:
                        found.append((f"{base}/{plural}", one["kind"]))
                else:
                    found.append((f"{top}/{{name}}/{sub}", one["kind"]))
        return found

    def _keep_objects(self, seeds: dict[str, list[Json]]) -> None:
        """Create objects for patches and updates to meet."""
        for one in yamltext.load(OBJECTS.read_text()):
            body = json.dumps(one["object"]).encode()
            sent = Sent("POST", one["path"], [("Content-Type", "application/json")], body)
            status, answer = self.wire.ask(sent.render(self._token))
            assert status in (200, 201, 409), (one["path"], answer)
            seeds.setdefault(one["object"]["kind"], []).extend([one["object"]] * 3)

    def run(self, count: int) -> Findings:
        """Send ``count`` requests."""
        begun, shown = time.monotonic(), time.monotonic()
        while self.findings.sent < count:
            self._next()
            if time.monotonic() - shown > 20:
                shown = time.monotonic()
                rate = self.findings.sent / (shown - begun)
                print(
                    f"{self.findings.sent} of {count} requests, {rate:.0f}/s, {len(self.findings.wrong)} findings",
                    flush=True,
                )
            if not self.is_alive():
                break
        return self.findings

    def check_stored(self) -> None:
        """Add a finding for each stored object that does not have the types of its kind: who reads it would fail."""
        for path, name in self.mutator.resources:
            if not name or "{" in path:
                continue
            base, _, plural = path.rpartition("/")
            group, _, version = base.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
            status, body = self.wire.ask(Sent("GET", path).render(self._token))
            kind = Kind(group, version, name, plural)
            for item in json.loads(body).get("items") or () if status == 200 else ():
                before = json.dumps(item)
                if shapes.load().of(kind) is None:
                    unknown, wrong = builtin.typed_metadata(item["metadata"], "metadata")
                else:
                    unknown, wrong = builtin.typed(kind, item)
                for problem in (*unknown, *wrong, *(["a null"] if before != json.dumps(item) else [])):
                    self.findings.add(f"stored: {name}: {problem}", before)

    def is_alive(self) -> bool:
        """Whether the server runs; a finding where it does not."""
        if not self.server.is_alive():
            self.findings.add("the server ended", self.server.log.read_text()[-500:])
        return self.server.is_alive()

    def _next(self) -> None:
        """Send some requests ahead of their answers, or one that is hardly HTTP or large."""
        if self.rng.random() < 0.01 * _AHEAD:
            data, shown = self._hardly_http()
            self._ask(data, shown, must_answer=False)
            self.wire.close()
            return
        some: list[Sent] = []
        size = 0
        while len(some) < _AHEAD:
            sent = self.mutator.request()
            if len(sent.body) > _AHEAD_BYTES:
                self.send(sent)
                continue
            some.append(sent)
            size += len(sent.body)
            if size > _AHEAD_BYTES:
                break
        self._send_ahead(some)

    def _send_ahead(self, some: Sequence[Sent]) -> None:
        """Send requests together, and alone who gets no answer or may have taken long."""
        while some:
            before, answered, is_lost = self.server.cpu_seconds(), 0, False
            try:
                self.wire.send(b"".join(sent.render(self._token) for sent in some))
                while answered < len(some) and self.wire.is_open:
                    sent = some[answered]
                    status, _ = self.wire.answer(is_head=sent.method == "HEAD")
                    self._judge(status, sent)
                    answered += 1
            except Lost:
                is_lost = True
            self.findings.sent += answered
            if self.server.cpu_seconds() - before > CPU_SECONDS / 4:
                answered, is_lost = 0, True
            if is_lost:
                self.send(some[answered])
                answered += 1
            some = some[answered:]

    def send(self, sent: Sent) -> int:
        """Send one request, look at the server after it, and return the status; 0 where there is no answer."""
        return self._ask(sent.render(self._token), sent, is_head=sent.method == "HEAD")

    def _ask(self, data: bytes, shown: object, *, is_head: bool = False, must_answer: bool = True) -> int:
        found = self.findings
        found.sent += 1
        before = self.server.cpu_seconds()
        try:
            status, _ = self.wire.ask(data, is_head=is_head)
        except Lost as error:
            if must_answer or "timed out" in str(error):
                found.add(f"no answer: {error}", str(shown))
            return 0
        cpu = self.server.cpu_seconds() - before
        found.worst_cpu = max(found.worst_cpu, cpu)
        if cpu > CPU_SECONDS:
            found.add(f"over {CPU_SECONDS:.0f} s of CPU: {str(shown)[:12]}", f"{cpu:.2f} s: {shown}")
        self._judge(status, shown)
        return status

    def _judge(self, status: int, shown: object) -> None:
        self.findings.answers[status] += 1
        if status >= 500 and status not in _BY_CONTRACT:
            self.findings.add(f"{status}: {self._reason()}", str(shown))

    def _hardly_http(self) -> tuple[bytes, str]:
        data = self.rng.choice(RAW)
        if self.rng.random() < 0.5:
            data = self.mutator.broken(data)
        self.wire.close()
        return finished(data), repr(data)

    def _reason(self) -> str:
        """Return the last exception in the server's log and where it arose."""
        log = self.server.log.read_bytes()
        new, self._log_at = log[self._log_at :].decode("utf-8", "replace"), len(log)
        places = re.findall(r'File "[^"]*/strato/([^"]+)", line (\d+)', new)
        errors = re.findall(r"^(\w+(?:\.\w+)*(?:Error|Exception|Interrupt)\b[^\n]{0,80})", new, re.MULTILINE)
        return f"{errors[-1] if errors else '?'} at {':'.join(places[-1]) if places else '?'}"


def finished(data: bytes) -> bytes:
    """Return what is hardly HTTP with an end, as a server rightly waits for the rest of a request."""
    length = _CONTENT_LENGTH.search(data)
    body = int(length[1]) if length is not None and len(length[1]) < 8 else 0
    return data + b"\r\n\r\n" * 3 + b"x" * max(100, body) + b"\r\n\r\n"


_CONTENT_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def _golden() -> tuple[dict[str, list[Json]], dict[str, bytes]]:
    """Return objects that set nearly every field, in JSON and protobuf, by kind."""
    seeds: dict[str, list[Json]] = {}
    packed: dict[str, bytes] = {}
    for path in sorted(GOLDEN.glob("*.json")):
        obj = json.loads(path.read_text())
        if isinstance(obj, dict) and isinstance(obj.get("kind"), str):
            seeds.setdefault(obj["kind"], []).append(obj)
            pb = path.with_suffix(".pb")
            if pb.exists():
                packed[obj["kind"]] = pb.read_bytes()
    return seeds, packed


Run = Callable[[Fuzzer, int], Findings]


async def attack(count: int, seed: int, run: Run = Fuzzer.run) -> Findings:
    """Start a server and send it ``count`` requests."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "home")
        await server.start()
        try:
            fuzzer = await asyncio.to_thread(Fuzzer, server, random.Random(seed))
            try:
                found = await asyncio.to_thread(run, fuzzer, count)
                if server.is_alive():
                    await asyncio.to_thread(fuzzer.check_stored)
                return found
            finally:
                fuzzer.wire.close()
        finally:
            server.end()


def _attack(count: int, seed: int, run: Run) -> Findings:
    return asyncio.run(attack(count, seed, run))


def main(runs: Callable[[int], Sequence[Run]] = lambda many: [Fuzzer.run] * many, usual: int = 100_000) -> int:
    """Run the campaign in several processes, each with a server of its own; return 1 when something was found.

    Args:
        runs: Gives what each of so many processes does.
        usual: Requests, when nothing is said.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=usual, help="requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    many, found, begun = options.processes, Findings(), time.monotonic()
    with ProcessPoolExecutor(many, multiprocessing.get_context("spawn")) as pool:
        parts = [
            pool.submit(_attack, options.count // many + (number < options.count % many), options.seed + number, run)
            for number, run in enumerate(runs(many))
        ]
        for part in parts:
            found.merge(part.result())
    print(f"\n{found.sent / (time.monotonic() - begun):.0f} requests/s in {many} processes")
    return report(found)


def report(found: Findings) -> int:
    """Print what was found; return 1 when that is anything."""
    print(f"{found.sent} requests; most CPU for one: {found.worst_cpu:.2f} s")
    if found.known_operations:
        print(found.reached())
        for label in sorted(found.known_operations - found.operations)[:20]:
            print(f"- not reached: {label}")
    print("status   answers")
    for status, times in sorted(found.answers.items()):
        print(f"{status:>6}   {times:>7}")
    print(f"findings: {len(found.wrong)}")
    for kind, example in found.wrong.items():
        print(f"- {found.times[kind]} × {kind}\n  {example[:600]}")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
