"""The cluster's name server: resolves the cluster's names from the zone, all others by the machine's name servers.

Queries come from pods, and answers from the network, so both may be hostile: anything but a single question of the
Internet class is refused or dropped, and sizes, times and numbers of all that is kept are bounded.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from dnslib import CLASS, QTYPE, RCODE, RR, DNSRecord
from dnslib import dns as rdata

from strato.node.services.zone import CNAME, SRV, A, Resource, Zone

DNS_PORT = 53
TTL_SECONDS = 5
"""How long clients may cache answers; the default of CoreDNS."""
_MAX_QUERY_BYTES = 1232
"""Larger queries are dropped."""
_PLAIN_BYTES = 512
_MAX_UDP_BYTES = 4096
_MAX_TCP_BYTES = 65535
_MAX_ANSWERS = 1000
_MAX_FORWARDED = 512
"""Most queries that wait for another server; further ones are refused."""
_FORWARD_SECONDS = 2.0
_TRIES = 2
_MAX_CLIENTS = 256
_TCP_SECONDS = 10.0
_MAX_TCP_QUERIES = 256

Admits = Callable[[str, str], bool]


class NameServer:
    """See the module.

    Args:
        zone: The cluster's names.
        upstreams: Addresses of the machine's name servers; without any, other names do not exist.
        rng: Generates ids of forwarded queries, and shuffles answers.
        admits: Returns whether a client may query at an address.
        on_refused: Called with a client and the name that it asked for where there is no upstream to ask.
    """

    def __init__(
        self,
        zone: Zone,
        upstreams: Sequence[str],
        rng: random.Random,
        admits: Admits,
        on_refused: Callable[[str, str], None],
    ) -> None:
        self._zone, self._upstreams, self._rng = zone, upstreams, rng
        self._admits, self._on_refused = admits, on_refused
        self._forwarded = 0
        self._clients = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, address: str, port: int = DNS_PORT) -> None:
        """Listen for datagrams and connections.

        Raises:
            OSError: The address is taken, or not this machine's.
        """
        await asyncio.start_server(self._serve, address, port)  # first, as uvloop says of it why it fails
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: _Datagrams(self, address), (address, port))

    def received(self, query: bytes, client: tuple[str, int], own: str, send: Callable[[bytes], None]) -> None:
        """Answer a datagram at once, or when another server has answered."""
        if not self._admits(client[0], own):
            return
        answer = self.answer(query, client[0])
        if answer is not None:
            if answer:
                send(answer)
            return
        task = asyncio.get_running_loop().create_task(self._pass_on(query, send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, query: bytes, send: Callable[[bytes], None]) -> None:
        send(await self.forward(query, over_tcp=False))

    def answer(self, query: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        """Return the answer, empty to drop the query; None if it has to be forwarded."""
        if len(query) > _MAX_QUERY_BYTES:
            return b""
        try:
            record = DNSRecord.parse(query)
        except Exception:  # dnslib raises various exceptions for malformed packets
            return b""
        if record.header.qr:
            return b""
        if record.header.opcode or len(record.questions) != 1 or record.q.qclass != CLASS.IN:
            return _refusal(record, RCODE.NOTIMP)
        name = str(record.q.qname).rstrip(".").lower()
        if not self._zone.is_ours(name):
            if self._upstreams and self._forwarded < _MAX_FORWARDED:
                return None
            if self._upstreams:
                return _refusal(record, RCODE.SERVFAIL)
            self._on_refused(client, name)
            return _refusal(record, RCODE.NXDOMAIN)
        resources = self._zone.find(name)
        reply = record.reply(ra=1, aa=1)
        if resources is None:
            reply.header.rcode = RCODE.NXDOMAIN
        else:
            self._fill(reply, record.q, resources)
        return _packed(reply, _MAX_TCP_BYTES if over_tcp else _room(record))

    def _fill(self, reply: DNSRecord, question: Any, resources: list[Resource]) -> None:
        wanted = QTYPE.get(question.qtype)
        found = [one for one in resources if wanted in (one.type, "ANY") or one.type == CNAME]
        self._rng.shuffle(found)
        for one in found[:_MAX_ANSWERS]:
            reply.add_answer(_record(question.qname, one))
            if one.type == SRV:
                for below in self._zone.find(one.target) or ():
                    if below.type == A:
                        reply.add_ar(_record(one.target, below))

    async def forward(self, query: bytes, *, over_tcp: bool) -> bytes:
        """Forward a query to the machine's name servers, one after the other; answers SERVFAIL if all fail."""
        self._forwarded += 1
        try:
            for server in (*self._upstreams,)[: _TRIES + 1]:
                try:
                    async with asyncio.timeout(_FORWARD_SECONDS):
                        answer = await (self._by_tcp if over_tcp else self._by_udp)(query, server)
                except (OSError, TimeoutError, EOFError):
                    continue
                return query[:2] + answer[2:]
            return _refusal(DNSRecord.parse(query), RCODE.SERVFAIL)
        finally:
            self._forwarded -= 1

    async def _by_udp(self, query: bytes, server: str) -> bytes:
        number = self._rng.randbytes(2)
        question = number + query[2:]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Answer(done, lambda data: _is_answer(data, question)), remote_addr=(server, DNS_PORT)
        )
        try:
            transport.sendto(question)
            return await done
        finally:
            transport.close()

    async def _by_tcp(self, query: bytes, server: str) -> bytes:
        question = self._rng.randbytes(2) + query[2:]
        reader, writer = await asyncio.open_connection(server, DNS_PORT)
        try:
            writer.write(len(question).to_bytes(2, "big") + question)
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        finally:
            writer.close()
        if not _is_answer(answer, question):
            raise EOFError
        return answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the queries of one TCP connection."""
        client, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        if self._clients >= _MAX_CLIENTS or not self._admits(client[0], own[0]):
            writer.close()
            return
        self._clients += 1
        try:
            for _ in range(_MAX_TCP_QUERIES):
                async with asyncio.timeout(_TCP_SECONDS):
                    query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                    answer = self.answer(query, client[0], over_tcp=True)
                    if answer is None:
                        answer = await self.forward(query, over_tcp=True)
                    if not answer:
                        return
                    writer.write(len(answer).to_bytes(2, "big") + answer)
                    await writer.drain()
        except (OSError, TimeoutError, EOFError):
            return  # the client has disconnected, or was idle for too long
        finally:
            self._clients -= 1
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer, own: str) -> None:
        self._server, self._own = server, own
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, client: Any) -> None:
        def send(answer: bytes) -> None:
            if self._transport is not None and not self._transport.is_closing():
                self._transport.sendto(answer, client)

        self._server.received(data, client, self._own, send)


class _Answer(asyncio.DatagramProtocol):
    """Waits for the datagram that answers a forwarded query."""

    def __init__(self, done: asyncio.Future[bytes], fits: Callable[[bytes], bool]) -> None:
        self._done, self._fits = done, fits

    def datagram_received(self, data: bytes, _address: Any) -> None:
        if not self._done.done() and self._fits(data):
            self._done.set_result(data)

    def error_received(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def _is_answer(data: bytes, question: bytes) -> bool:
    """Whether data is a response with the id and the question of a query."""
    if len(data) < 12 or data[:2] != question[:2] or not data[2] & 0x80:
        return False
    end = question.find(b"\0", 12) + 5  # a question's own name is never compressed
    return data[12:end].lower() == question[12:end].lower()


def _record(owner: Any, one: Resource) -> RR:
    values = (0, 100, one.port, one.target) if one.type == SRV else (one.target,)
    return RR(owner, getattr(QTYPE, one.type), ttl=TTL_SECONDS, rdata=getattr(rdata, one.type)(*values))


def _room(record: DNSRecord) -> int:
    """Return the longest answer that a client accepts in a datagram."""
    sizes = [extra.edns_len for extra in record.ar if extra.rtype == QTYPE.OPT]
    return min(max(_PLAIN_BYTES, *sizes), _MAX_UDP_BYTES) if sizes else _PLAIN_BYTES


def _packed(reply: DNSRecord, room: int) -> bytes:
    packed: bytes = reply.pack()
    if len(packed) <= room:
        return packed
    reply.ar = []
    packed = reply.pack()
    return packed if len(packed) <= room else _truncated(reply)


def _truncated(reply: DNSRecord) -> bytes:
    """Return the reply without its records and with the flag TC, so that the client repeats the query over TCP."""
    reply.header.tc = 1
    reply.rr, reply.auth, reply.ar = [], [], []
    return bytes(reply.pack())


def _refusal(record: DNSRecord, code: int) -> bytes:
    reply = record.reply(ra=1, aa=0)
    reply.header.rcode = code
    return bytes(reply.pack())
