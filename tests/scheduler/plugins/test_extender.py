"""extender: questions over real sockets, and what happens when nobody answers."""

from __future__ import annotations

import http.server
import json
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from strato.scheduler.plugins import wireforms
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
Answer = Callable[[str, Json], Any]


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            verb = self.path.rpartition("/")[2]
            asked.append(verb)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = answer(verb, body)
            raw = b"" if found is None else json.dumps(found).encode()
            self.send_response(500 if found is None else 200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ext/", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


VERBS = ("predicate", "prioritize", "preemptable", "reclaimable", "queueOverused", "jobEnqueueable", "jobReady")


def plugin(url: str, *verbs: str, **more: Any) -> Json:
    """Time is no matter unless a test says so: its limits are far beyond what a slow machine needs."""
    arguments = {f"extender.{verb}Verb": verb for verb in verbs} | {f"extender.{k}": v for k, v in more.items()}
    patient = {"extender.httpTimeout": "100s", "extender.cycleTimeout": "200s"}
    return {"name": "extender", "arguments": {"extender.urlPrefix": url, **patient, **arguments}}


def world() -> Any:
    gpu = worlds.pod("g", resources={"nvidia.com/gpu": "1"})
    running = worlds.pod("r", "job", phase="Running", nodeName="a")
    return worlds.world(
        worlds.node("a"), worlds.node("b"), worlds.queue(), worlds.group("job", 0), running, worlds.pod("p"), gpu
    )


def agree(verb: str, body: Json) -> Any:
    if verb == "predicate":
        return {} if body["node"]["Name"] == "a" else {"status": "not here", "code": 3}
    return {
        "prioritize": {"nodeScore": {"a": 7, "b": 3.5}},
        "preemptable": {"status": 1, "victims": [{"UID": "ns-r"}]},
        "reclaimable": {"status": 1, "victims": []},
        "queueOverused": {"overused": True},
        "jobEnqueueable": {"status": -1},
        "jobReady": {"status": True},
    }.get(verb, {})


def answers(ssn: Any) -> Json:
    task, job, queue = asking.task(ssn, "p"), ssn.world.jobs["ns/job"], ssn.world.queues["default"]
    others = [asking.task(ssn, "r")]
    return {
        "predicate": asking.refusals(ssn, "p"),
        "prioritize": asking.scores(ssn, "p"),
        "preemptable": asking.keys(ssn.preemptable(task, others)),
        "reclaimable": asking.keys(ssn.reclaimable(task, others)),
        "queueOverused": ssn.overused(queue),
        "jobEnqueueable": ssn.job_enqueueable(job),
        "jobReady": ssn.job_ready(job),
    }


def test_its_answers_decide() -> None:
    with serving(agree) as (url, _):
        assert answers(asking.session(world(), plugin(url, *VERBS))) == {
            "predicate": {"b": ("not here", False)},
            "prioritize": {"a": 7.0, "b": 3.5},
            "preemptable": ["r"],
            "reclaimable": [],
            "queueOverused": True,
            "jobEnqueueable": False,
            "jobReady": True,
        }


@pytest.mark.parametrize("ignorable", [True, False], ids=["ignorable", "not ignorable"])
def test_no_answer_is_asked_for_once_a_cycle_and_told_once(ignorable: bool, caplog: pytest.LogCaptureFixture) -> None:
    with serving(lambda *_: None) as (url, asked), caplog.at_level(logging.WARNING):
        made = world()
        found = answers(asking.session(made, plugin(url, *VERBS, ignorable=ignorable)))
        assert len(asked) == 1
        answers(asking.session(made, plugin(url, *VERBS, ignorable=ignorable), now=asking.NOW + 3600))
        assert len(asked) == 2
    assert len(caplog.records) == 1
    assert bool(found.pop("predicate")) is not ignorable
    assert found == {
        "prioritize": {"a": 0.0, "b": 0.0},
        "preemptable": [],
        "reclaimable": [],
        "queueOverused": not ignorable,
        "jobEnqueueable": ignorable,
        "jobReady": not ignorable,
    }


@pytest.mark.parametrize("least", [None, {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}])
def test_amounts_are_written_as_volcano_writes_them(least: Json | None) -> None:
    made = world()
    worlds.feed(made, worlds.group("job", 1, **{"minResources": least} if least else {}))
    scalars = {"nvidia.com/gpu": 1000.0}
    whole = {"MilliCPU": 2000.0, "Memory": float(1 << 30), "ScalarResources": scalars}
    assert wireforms.job(made, made.jobs["ns/job"])["MinResources"] == (whole if least else None)
    asked = wireforms.task(made, made.tasks["ns/g"])["Resreq"]
    assert asked == {"MilliCPU": 1000.0, "Memory": float(1 << 30), "ScalarResources": scalars | {"pods": 1.0}}


def test_only_pods_with_managed_resources_are_asked_about() -> None:
    with serving(agree) as (url, asked):
        ssn = asking.session(world(), plugin(url, "predicate", "prioritize", managedResources=["nvidia.com/gpu"]))
        assert asking.refusals(ssn, "p") == {}
        assert not ssn.one_by_one(asking.task(ssn, "p"))
        assert asked == []
        assert list(asking.refusals(ssn, "g")) == ["b"]
        assert asked == ["predicate", "predicate"]


@pytest.mark.parametrize("ignorable", [True, False], ids=["ignorable", "not ignorable"])
def test_a_session_it_does_not_open(ignorable: bool) -> None:
    def closed(verb: str, body: Json) -> Any:
        assert verb != "onSessionOpen" or {"Jobs", "Nodes", "Queues", "NodeList"} <= set(body)
        return None

    with serving(closed) as (url, asked):
        ssn = asking.session(world(), plugin(url, "onSessionOpen", "queueOverused", ignorable=ignorable))
        assert not ssn.overused(ssn.world.queues["default"])
        assert asked == ["onSessionOpen"]


def test_it_hears_of_places_and_of_the_end() -> None:
    with serving(agree) as (url, asked):
        verbs = ("allocateFunc", "deallocateFunc", "onSessionClose", "jobEnqueued")
        ssn = asking.session(world(), plugin(url, *verbs))
        asking.place(ssn, "p", "a")
        ssn.fire_removed((asking.task(ssn, "p"),))
        ssn.job_enqueued(ssn.world.jobs["ns/job"])
        ssn.plugins[0].close(ssn)
        assert asked == ["allocateFunc", "deallocateFunc", "jobEnqueued", "onSessionClose"]


@contextmanager
def dripping() -> Iterator[tuple[str, queue.Queue[str]]]:
    """A service that answers one byte at a time, each soon after the one before, and never ends."""
    over, asked = threading.Event(), queue.Queue[str]()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.put(self.path)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not over.wait(0.02):
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_service_that_never_comes_to_an_end_costs_one_request_and_then_rests() -> None:
    with dripping() as (url, asked):
        made, rules = world(), plugin(url, *VERBS, httpTimeout="200ms")
        answers(asking.session(made, rules))
        asked.get(timeout=200)  # the service may take up the question after we gave up
        answers(asking.session(made, rules, now=asking.NOW + 1.0))  # ten times 200 ms are not over
        assert asked.empty()
        answers(asking.session(made, rules, now=asking.NOW + 3600))
        asked.get(timeout=200)
        assert asked.empty()


def test_a_slow_service_has_its_budget_and_no_more() -> None:
    def slowly(verb: str, body: Json) -> Any:
        threading.Event().wait(0.2)
        return agree(verb, body)

    with serving(slowly) as (url, asked):
        answers(asking.session(world(), plugin(url, *VERBS, cycleTimeout="300ms")))
        assert len(asked) <= 2


def test_a_bad_service_does_not_silence_a_good_one() -> None:
    with dripping() as (bad, _), serving(agree) as (good, asked):
        rules = [plugin(bad, "predicate", httpTimeout="100ms", ignorable=True), plugin(good, "predicate")]
        for now in (asking.NOW, asking.NOW + 0.5):
            ssn = asking.session(world(), *rules, now=now)
            assert asking.refusals(ssn, "p") == {"b": ("not here", False)}
        assert asked == ["predicate"] * 4
