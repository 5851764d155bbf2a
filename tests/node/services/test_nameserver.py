"""Names of services: what the zone has, what the name server answers, and whom it asks."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from dnslib import RR, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from strato.clock import VirtualClock
from strato.node.services.nameserver import NameServer
from strato.node.services.records import DataPlaneReport, HostRecord, PortRecord, ServiceRecord
from strato.node.services.refusednames import RefusedNames
from strato.node.services.zone import Zone

POD, OTHER_POD = "10.1.0.3", "10.1.0.4"
DNS = "cluster.local"
SERVICE = ServiceRecord(namespace="team", name="web", cluster_ip="10.96.0.5", ports=(PortRecord(name="http", port=80),))
HEADLESS = ServiceRecord(
    namespace="team",
    name="bare",
    hosts=(
        HostRecord(address="10.1.0.1", hostname="a-0", ports=(("http", "TCP", 8080),)),
        HostRecord(address="10.1.0.2"),
    ),
)
EXTERNAL = ServiceRecord(namespace="team", name="out", external_name="db.example.com")


@pytest.fixture
def zone() -> Zone:
    made = Zone(DNS)
    for one in (SERVICE, HEADLESS, EXTERNAL):
        made.put(one.namespace, one.name, one)
    return made


def server(zone: Zone, *upstreams: str) -> NameServer:
    return NameServer(zone, upstreams, random.Random(1), lambda _peer, _own: True, lambda _client, _name: None)


def answers(zone: Zone, name: str, kind: str = "A") -> tuple[str, set[str]]:
    """Return the answer's code and its records."""
    packed = server(zone).answer(DNSRecord.question(name, kind).pack(), POD)
    assert packed
    reply = DNSRecord.parse(packed)
    return {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN"}[reply.header.rcode], {str(one.rdata) for one in reply.rr}


NAMES = [
    ("web.team.svc.cluster.local", "A", "NOERROR", {"10.96.0.5"}),
    ("WEB.Team.SVC.cluster.local", "A", "NOERROR", {"10.96.0.5"}),
    ("web.team.svc.cluster.local", "AAAA", "NOERROR", set()),
    ("_http._tcp.web.team.svc.cluster.local", "SRV", "NOERROR", {"0 100 80 web.team.svc.cluster.local."}),
    ("5.0.96.10.in-addr.arpa", "PTR", "NOERROR", {"web.team.svc.cluster.local."}),
    ("bare.team.svc.cluster.local", "A", "NOERROR", {"10.1.0.1", "10.1.0.2"}),
    ("a-0.bare.team.svc.cluster.local", "A", "NOERROR", {"10.1.0.1"}),
    ("10-1-0-2.bare.team.svc.cluster.local", "A", "NOERROR", {"10.1.0.2"}),
    ("_http._tcp.bare.team.svc.cluster.local", "SRV", "NOERROR", {"0 100 8080 a-0.bare.team.svc.cluster.local."}),
    ("1.0.1.10.in-addr.arpa", "PTR", "NOERROR", {"a-0.bare.team.svc.cluster.local."}),
    ("out.team.svc.cluster.local", "A", "NOERROR", {"db.example.com."}),
    ("10-1-0-9.team.pod.cluster.local", "A", "NOERROR", {"10.1.0.9"}),
    ("team.svc.cluster.local", "A", "NOERROR", set()),
    ("no.team.svc.cluster.local", "A", "NXDOMAIN", set()),
    ("elsewhere.example.com", "A", "NXDOMAIN", set()),
]


@pytest.mark.parametrize(("name", "kind", "code", "found"), NAMES, ids=[f"{row[1]} {row[0]}" for row in NAMES])
def test_names(zone: Zone, name: str, kind: str, code: str, found: set[str]) -> None:
    assert answers(zone, name, kind) == (code, found)


def test_names_go_with_their_service(zone: Zone) -> None:
    for name in ("web", "bare", "out"):
        zone.put("team", name, None)
    assert all(zone.find(name.lower()) is None for name, *_ in NAMES if ".pod." not in name)


@given(st.binary(max_size=1400), st.booleans())
def test_hostile_questions_get_a_small_answer_or_none(query: bytes, over_tcp: bool) -> None:
    answer = server(Zone(DNS)).answer(query, POD, over_tcp=over_tcp)
    assert answer is not None
    assert len(answer) <= 1500


async def test_large_answers_are_cut_and_whole_over_tcp() -> None:
    zone = Zone(DNS)
    hosts = tuple(HostRecord(address=f"10.1.{n // 250}.{n % 250 + 1}") for n in range(400))
    zone.put("team", "bare", ServiceRecord(namespace="team", name="bare", hosts=hosts))
    query = DNSRecord.question(f"bare.team.svc.{DNS}").pack()
    cut = DNSRecord.parse(server(zone).answer(query, POD) or b"")
    assert (cut.header.tc, len(cut.rr)) == (1, 0)
    assert len(DNSRecord.parse(server(zone).answer(query, POD, over_tcp=True) or b"").rr) == 400


async def test_other_names_are_asked_of_the_machines_server_which_is_not_believed_blindly(
    monkeypatch: pytest.MonkeyPatch, zone: Zone
) -> None:
    """A false answer with another number comes first; the right one is given back under the asker's number."""
    loop = asyncio.get_running_loop()

    class Upstream(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            reply = DNSRecord.parse(data).reply()
            reply.add_answer(*RR.fromZone("elsewhere.example.com 60 A 192.0.2.80"))
            false = DNSRecord.parse(reply.pack())
            false.header.id = (reply.header.id + 1) % 65536
            self.transport.sendto(false.pack(), address)
            self.transport.sendto(reply.pack(), address)

    transport, _ = await loop.create_datagram_endpoint(Upstream, ("127.0.0.1", 0))
    monkeypatch.setattr("strato.node.services.nameserver.DNS_PORT", transport.get_extra_info("sockname")[1])
    question = DNSRecord.question("elsewhere.example.com")
    asker = server(zone, "127.0.0.1")
    assert asker.answer(question.pack(), POD) is None
    answer = DNSRecord.parse(await asker.forward(question.pack(), over_tcp=False))
    assert (answer.header.id, str(answer.rr[0].rdata)) == (question.header.id, "192.0.2.80")
    transport.close()
    await asyncio.sleep(0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([SERVICE, HEADLESS, EXTERNAL, None]))))
def test_a_zone_holds_what_was_put_last(steps: list[tuple[str, ServiceRecord | None]]) -> None:
    zone, last = Zone(DNS), dict[str, ServiceRecord | None]()
    for name, one in steps:
        zone.put("n", name, one)
        last[name] = one
    fresh = Zone(DNS)
    for name, one in last.items():
        fresh.put("n", name, one)
    for owner, *_ in NAMES:
        assert sorted(zone.find(owner.lower()) or ()) == sorted(fresh.find(owner.lower()) or ())


REFUSED = [
    ("elsewhere.example.com", (), [(POD, "elsewhere.example.com")]),
    ("elsewhere.example.com", ("127.0.0.1",), []),
    ("no.team.svc.cluster.local", (), []),
    ("web", (), []),
    ("7.2.0.192.in-addr.arpa", (), []),
    ("not a name.example.com", (), []),
]


@pytest.mark.parametrize(("name", "upstreams", "told"), REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED])
def test_who_asks_for_a_host_elsewhere_in_vain_is_told_of(
    zone: Zone, name: str, upstreams: tuple[str, ...], told: list[tuple[str, str]]
) -> None:
    reports: list[DataPlaneReport] = []
    refused = RefusedNames(VirtualClock(), reports.append)
    asked = NameServer(zone, upstreams, random.Random(1), lambda _peer, _own: True, refused.add)
    asked.answer(DNSRecord.question(name).pack(), POD)
    assert [(report.client, report.name) for report in reports] == told


def test_a_pod_that_asks_again_and_again_is_told_of_once_a_minute() -> None:
    clock, reports = VirtualClock(), list[DataPlaneReport]()
    refused = RefusedNames(clock, reports.append)
    for seconds, client in [(0, POD), (1, POD), (0, OTHER_POD), (58, POD), (1, POD), (1, POD)]:
        clock.advance(seconds)
        refused.add(client, "pypi.org")
    assert [report.client for report in reports] == [POD, OTHER_POD, POD]
