from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from strato.api.core import Pod
from strato.api.shapes import ObjectReference
from strato.api.wire import Request, Response, User
from strato.client.events import EventRecorder
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, Unavailable
from strato.metrics import Registry
from strato.testing import pod
from tests.client.fakeserver import FakeServer

EVENTS = "/api/v1/events"


class World:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.clock = VirtualClock()
        self.registry = Registry()
        self.recorder = EventRecorder(
            LocalCluster(self.server, User("t")), self.clock, "tester", registry=self.registry
        )
        self.pod = pod("p").set("metadata", "uid", "u1").view(Pod)

    def events(self) -> list[dict]:
        return [obj for (where, _, _), obj in self.server.objects.items() if where == EVENTS]

    def run(self, script) -> None:
        async def main() -> None:
            await script()
            await self.recorder.flush()

        run_virtual(self.clock, main())


def test_event_says_what_happened_to_whom() -> None:
    w = World()

    async def script() -> None:
        w.recorder.event(w.pod, "Normal", "Scheduled", "placed on n")
        assert w.server.requests == [], "recording itself sends nothing"

    w.run(script)
    (event,) = w.events()
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "u1",
    }  # fmt: skip -- one object, one line
    assert event["source"] == {"component": "tester"}
    assert (event["reason"], event["type"], event["count"]) == ("Scheduled", "Normal", 1)
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("p.")


def test_repeats_are_counted_on_the_first() -> None:
    w = World()

    async def script() -> None:
        for _ in range(4):
            w.recorder.event(w.pod, "Warning", "Failed", "no room")
            await w.clock.sleep(10)

    w.run(script)
    (event,) = w.events()
    assert event["count"] == 4
    assert event["firstTimestamp"] != event["lastTimestamp"]
    assert w.server.verbs() == ["create", "patch", "patch", "patch"]


def test_repeats_that_wait_are_one_write() -> None:
    w = World()

    async def script() -> None:
        for _ in range(4):
            w.recorder.event(w.pod, "Warning", "Failed", "no room")
            await w.clock.sleep(0)

    w.run(script)
    (event,) = w.events()
    assert event["count"] == 4
    assert len(w.server.requests) < 3


class Away(LocalCluster):
    """A server whose answers are lost, or that is not there at all."""

    lost = 0
    """How many of the next answers are lost."""
    away = False

    async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
        if self.away:
            return [Unavailable("connection refused")] * len(requests)
        answers = await super().exchange_all(requests)
        if self.lost:
            self.lost -= 1
            return [Unavailable("connection lost")] * len(answers)
        return answers

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        (answer,) = await self.exchange_all([request])
        if isinstance(answer, ApiError):
            raise answer
        return answer


def test_event_whose_answer_was_lost_is_not_created_twice() -> None:
    w = World()
    cluster = Away(w.server, User("t"))
    w.recorder = EventRecorder(cluster, w.clock, "tester")

    async def script() -> None:
        cluster.lost = 2
        w.recorder.event(w.pod, "Normal", "R", "m")
        await w.recorder.flush()
        w.recorder.event(w.pod, "Normal", "R", "m")

    w.run(script)
    (event,) = w.events()
    assert event["count"] == 2


def test_outage_of_minutes_loses_no_event() -> None:
    w = World()
    cluster = Away(w.server, User("t"))
    w.recorder = EventRecorder(cluster, w.clock, "tester")

    async def script() -> None:
        cluster.away = True
        for number in range(50):
            w.recorder.event(bound(number), "Normal", "Scheduled", "m")
        await w.clock.sleep(600.0)
        cluster.away = False
        await w.clock.sleep(31.0)
        assert len(w.events()) == 50

    w.run(script)
    assert w.recorder.dropped == 0


def test_event_that_expired_on_the_server_begins_anew() -> None:
    w = World()

    async def script() -> None:
        w.recorder.event(w.pod, "Normal", "R", "m")
        await w.recorder.flush()
        w.server.remove(EVENTS, "default", w.events()[0]["metadata"]["name"])
        w.recorder.event(w.pod, "Normal", "R", "m")

    w.run(script)
    assert w.events()[0]["count"] == 1


def test_many_different_messages_are_folded() -> None:
    w = World()

    async def script() -> None:
        for number in range(14):
            w.recorder.event(w.pod, "Normal", "R", f"message {number}")

    w.run(script)
    assert len(w.events()) == 11
    assert w.events()[-1]["message"] == "(combined from similar events): message 13"
    assert w.events()[-1]["count"] == 4


def test_flood_of_one_object_is_dropped_and_counted() -> None:
    w = World()

    async def script() -> None:
        for _ in range(100):
            w.recorder.event(w.pod, "Normal", "R", "m")

    w.run(script)
    assert w.events()[0]["count"] == 25
    assert w.recorder.dropped == 75
    assert b'strato_events_dropped_total{component="tester"} 75.0' in w.registry.render()


def test_overload_drops_instead_of_waiting() -> None:
    w = World()

    async def script() -> None:
        for number in range(6000):
            w.recorder.event(ObjectReference(kind="Pod", name=f"p{number}", uid=str(number)), "Normal", "R", "m")

    w.run(script)
    assert len(w.events()) == 5000
    assert w.recorder.dropped == 1000


def bound(number: int) -> ObjectReference:
    return ObjectReference(kind="Pod", namespace="default", name=f"p{number}", uid=str(number))


def test_events_of_a_burst_wait_for_its_end_and_go_together() -> None:
    w = World()

    async def script() -> None:
        for number in range(100):
            w.recorder.event(bound(number), "Normal", "Scheduled", "m")
            await w.clock.sleep(0.002)
        early = len(w.server.requests)
        assert 0 < early < 25, "only those before it was a burst"
        await w.clock.sleep(0.5)
        assert len(w.server.requests) == 100
        assert sorted(event["involvedObject"]["name"] for event in w.events()) == sorted(f"p{n}" for n in range(100))

    w.run(script)
    assert w.recorder.dropped == 0


def test_events_that_come_steadily_are_written_at_once() -> None:
    w = World()

    async def script() -> None:
        for number in range(100):
            w.recorder.event(bound(number), "Normal", "Scheduled", "m")
            await w.clock.sleep(0.02)
            assert len(w.events()) == number + 1

    w.run(script)


def test_events_do_not_wait_for_the_end_of_an_endless_burst() -> None:
    w = World()

    async def script() -> None:
        for number in range(400):
            w.recorder.event(bound(number), "Normal", "Scheduled", "m")
            await w.clock.sleep(0.01)
        assert 150 <= len(w.events()) <= 250, "what is older than two seconds is written"

    w.run(script)
    assert len(w.events()) == 400


def test_events_that_are_sent_together_fail_repeat_and_collide_each_for_itself() -> None:
    w = World()

    async def script() -> None:
        for number in range(40):
            w.recorder.event(bound(number), "Normal", "Scheduled", "m")
        for _ in range(3):
            w.recorder.event(bound(7), "Normal", "Scheduled", "m")
        w.server.fail_next("create", 403, "Forbidden")
        w.server.fail_next("create", 503, "ServiceUnavailable")
        w.server.fail_next("create", 409, "AlreadyExists")

    w.run(script)
    counts = {event["involvedObject"]["name"]: event["count"] for event in w.events()}
    assert len(counts) == 39
    assert {name: count for name, count in counts.items() if count > 1} == {"p7": 4}
    assert w.recorder.dropped == 1


def test_server_that_is_away_is_waited_for_a_little() -> None:
    w = World()

    async def script() -> None:
        w.server.fail_next("create", 503, "ServiceUnavailable")
        w.server.fail_next("create", 429, "TooManyRequests")
        w.recorder.event(w.pod, "Normal", "R", "m")

    w.run(script)
    assert len(w.events()) == 1


def test_refused_event_is_dropped_quietly() -> None:
    w = World()

    async def script() -> None:
        w.server.fail_next("create", 403, "Forbidden")
        w.recorder.event(w.pod, "Normal", "R", "m")
        await w.recorder.flush()
        w.recorder.event(msgspec.to_builtins(w.pod), "Normal", "R2", "m")

    w.run(script)
    assert [event["reason"] for event in w.events()] == ["R2"]
    assert w.recorder.dropped == 1


def test_components_that_report_at_one_instant_do_not_collide() -> None:
    w = World()
    other = EventRecorder(LocalCluster(w.server, User("t")), w.clock, "other")

    async def script() -> None:
        w.recorder.event(w.pod, "Normal", "R", "m")
        other.event(w.pod, "Normal", "R", "m")
        await asyncio.gather(w.recorder.flush(), other.flush())

    w.run(script)
    assert len(w.events()) == 2
