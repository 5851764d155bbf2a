"""Mail about jobs, to a server that speaks SMTP on a real socket."""

from __future__ import annotations

import asyncio
import email
import email.policy
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.mail import MAIL, MAIL_STATE, MAIL_TYPE, MailType, parse_addresses, parse_types
from strato.client.events import EventRecorder
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.controllers.context import ControllerContext, ControllerSettings
from strato.controllers.mail import (
    NO_SERVER,
    MailController,
    MailDelayed,
    SmtpMailer,
    compose,
    due,
)
from strato.metrics import Registry
from strato.server.embedded import in_memory_server
from tests.controllers.world import ADMIN, task, vcjob


class Relay(asyncio.Protocol):
    """The least of an SMTP server; ``refuses`` are answers to RCPT by address."""

    messages: list[tuple[list[str], str]]
    refuses: dict[str, str]

    def connection_made(self, transport: Any) -> None:
        self._transport, self._text, self._in_data = transport, b"", False
        self._to: list[str] = []
        transport.write(b"220 relay\r\n")

    def data_received(self, data: bytes) -> None:
        self._text += data
        while b"\r\n" in self._text:
            if self._in_data:
                if b"\r\n.\r\n" not in self._text:
                    return
                body, _, self._text = self._text.partition(b"\r\n.\r\n")
                type(self).messages.append((self._to, body.decode()))
                self._in_data, self._to = False, []
                self._transport.write(b"250 taken\r\n")
                continue
            line, _, self._text = self._text.partition(b"\r\n")
            self._transport.write(self._answer(line.decode()).encode() + b"\r\n")

    def eof_received(self) -> bool:
        return False

    def _answer(self, line: str) -> str:
        word = line[:4].upper()
        if word == "RCPT":
            address = line.partition("<")[2].partition(">")[0]
            self._to.append(address)
            return self.refuses.get(address, "250 ok")
        self._in_data = word == "DATA"
        return {"DATA": "354 go on", "QUIT": "221 bye"}.get(word, "250 ok")


def run(scenario: Any, *, refuses: dict[str, str] | None = None, server: bool = True) -> None:
    """Play against the real API server in memory and a relay on a socket, in real time."""

    async def main() -> None:
        Relay.messages, Relay.refuses = [], refuses or {}
        clock = SystemClock()
        listener = await asyncio.get_running_loop().create_server(Relay, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        cluster = LocalCluster(in_memory_server(clock, Random(1)), ADMIN)
        queue = {"apiVersion": catalog.QUEUE.api_version, "kind": "Queue", "metadata": {"name": "default"}}
        await cluster.create(catalog.QUEUE, {**queue, "spec": {"weight": 1}})
        informers = Informers(cluster, clock, Random(2))
        context = ControllerContext(
            cluster=cluster,
            informers=informers,
            clock=clock,
            random=Random(3),
            recorder=EventRecorder(cluster, clock, "test"),
            metrics=Registry(),
            settings=ControllerSettings(
                smtp_server=f"127.0.0.1:{port}" if server else "", mail_from="cluster@example.org"
            ),
        )
        controller = MailController(context)
        await informers.wait_synced()
        working = asyncio.create_task(controller.run())
        try:
            async with asyncio.timeout(60):
                await scenario(cluster)
        finally:
            working.cancel()
            await informers.stop()
            listener.close()
            await listener.wait_closed()

    asyncio.run(main())


async def submit(cluster: LocalCluster, wanted: str = "", to: str = "ann@example.org") -> None:
    body = vcjob("train", task(replicas=3))
    body["metadata"]["annotations"] = {MAIL: to, **({MAIL_TYPE: wanted} if wanted else {})}
    await cluster.create(catalog.VCJOB, body, "default")


async def move(cluster: LocalCluster, phase: str, **status: Any) -> None:
    state = {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z", **status.pop("state", {})}
    await cluster.patch(catalog.VCJOB, "train", "default", {"status": {"state": state, **status}}, subresource="status")


async def until_state(cluster: LocalCluster, wanted: str) -> None:
    async for batch in cluster.watch(catalog.VCJOB, "default", resource_version="0"):
        for event in batch:
            if (event.object["metadata"].get("annotations") or {}).get(MAIL_STATE, "").startswith(wanted):
                return


def test_beginning_and_end_are_told_once_each() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await submit(cluster)
        await until_state(cluster, "accepted")
        await move(cluster, "Running")
        await until_state(cluster, "begin")
        await move(cluster, "Completed", succeeded=3)
        await until_state(cluster, "begin,end")
        (_, begun), (to, ended) = Relay.messages
        assert "Subject: Strato job default/train began" in begun
        message = email.message_from_string(ended, policy=email.policy.default)
        assert (to, message["From"], message["To"]) == (["ann@example.org"], "cluster@example.org", "ann@example.org")
        assert message["Subject"] == "Strato job default/train completed"
        assert "Pods:      3 of 3 succeeded, 0 failed" in message.get_content()

    run(scenario)


def test_only_a_failure_is_told_with_its_reason_to_all() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await submit(cluster, "FAIL", "ann@example.org,bob@example.org")
        await move(cluster, "Running")
        await until_state(cluster, "begin")
        await move(cluster, "Failed", failed=1, state={"reason": "DeadlineExceeded", "message": "1 pod ran longer"})
        await until_state(cluster, "begin,end")
        ((to, text),) = Relay.messages
        assert to == ["ann@example.org", "bob@example.org"]
        assert "Reason:    DeadlineExceeded: 1 pod ran longer" in text

    run(scenario)


def test_without_a_server_the_job_says_so() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await submit(cluster)
        await until_state(cluster, NO_SERVER)

    run(scenario, server=False)


def test_what_the_server_refuses_for_good_is_said_and_what_it_delays_is_sent_later() -> None:
    async def refused(cluster: LocalCluster) -> None:
        await submit(cluster)
        await move(cluster, "Running")
        await until_state(cluster, "not sent: the SMTP server refuses {'ann@example.org': 'nobody'}")

    async def delayed(cluster: LocalCluster) -> None:
        await submit(cluster)
        await move(cluster, "Running")
        await asyncio.sleep(0)
        Relay.refuses = {}
        await until_state(cluster, "begin")
        assert len(Relay.messages) == 1

    run(refused, refuses={"ann@example.org": "550 nobody"})
    run(delayed, refuses={"ann@example.org": "451 later"})


def test_nobody_listens() -> None:
    async def main() -> None:
        listener = await asyncio.get_running_loop().create_server(Relay, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        listener.close()
        await listener.wait_closed()
        from strato.api.volcano.batch import Job

        with pytest.raises(MailDelayed, match="cannot be reached"):
            await SmtpMailer(f"127.0.0.1:{port}", "a@b.c").send(compose(Job(), MailType.BEGIN, ["a@b.c"]))

    asyncio.run(main())


ALL = tuple(MailType)
DUE = [
    pytest.param("Pending", ALL, "", None, "", id="nothing has begun"),
    pytest.param("Running", ALL, "accepted", MailType.BEGIN, "begin", id="it begins"),
    pytest.param("Running", (MailType.END,), "accepted", None, "begin", id="nobody wants to know that it begins"),
    pytest.param("Completed", ALL, "accepted", MailType.END, "begin,end", id="it was quick"),
    pytest.param("Completed", (MailType.FAIL,), "begin", None, "begin,end", id="it did not fail"),
    pytest.param("Terminated", (MailType.FAIL,), "begin", MailType.FAIL, "begin,end", id="it was terminated"),
    pytest.param("Failed", (MailType.END,), "begin", MailType.FAIL, "begin,end", id="a failure is an end too"),
    pytest.param("Failed", ALL, "begin,end", None, "", id="it is known"),
]


@pytest.mark.parametrize(("phase", "wanted", "sent", "about", "then"), DUE)
def test_what_is_due(phase: str, wanted: Any, sent: str, about: MailType | None, then: str) -> None:
    found, noted = due(phase, wanted, sent.split(","))
    assert (found, ",".join(noted)) == (about, then)


@pytest.mark.parametrize("text", ["", "ann", "ann@", "a b@c", "a@b\nBcc: all@example.org", "a@b,,c", "ä@b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no mail address"):
        parse_addresses(text)


def test_types_are_slurms_too() -> None:
    assert parse_types("BEGIN,FAIL") == (MailType.BEGIN, MailType.FAIL)
    assert parse_types("ALL") == tuple(MailType)
    assert parse_types("none") == ()
    with pytest.raises(ValueError, match="'sometimes' is not one of begin, end, fail, all"):
        parse_types("begin,sometimes")
