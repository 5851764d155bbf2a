"""``strato run``: its lease's namespace, and the metrics it serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, cast

import aiohttp
import pytest

from strato.cli.home import Home
from strato.cli.main import main
from strato.cli.monitoring import MonitoringEndpoint, TlsFiles, serve_endpoint, split_address
from strato.cli.run.common import Common, RunningComponent, serve
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.leases import LeaseTiming
from strato.client.namespaces import ensure_namespace
from strato.clock import SystemClock
from strato.errors import AlreadyExists, ApiError, Forbidden, StratoError, Unavailable, UsageError
from strato.metrics import Registry
from strato.pki import Authority
from tests.http.badrequests import wrongly_answered


class Answers:
    """A cluster whose creates end as told, one after the other."""

    def __init__(self, *answers: ApiError | None) -> None:
        self.answers = list(answers)

    async def create(self, kind: object, body: object, namespace: str = "") -> dict[str, Any]:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return {}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((None,), id="it is made"),
        pytest.param((AlreadyExists("there"),), id="one that is there is fine"),
        pytest.param((Forbidden("no"),), id="a role that may not make namespaces is no reason to stop"),
        pytest.param((Unavailable("down"), Unavailable("down"), None), id="a server that comes up later is waited for"),
    ],
)
async def test_the_namespace_of_the_lease(answers: tuple[ApiError | None, ...]) -> None:
    cluster = Answers(*answers)
    await ensure_namespace(cast(Cluster, cluster), SystemClock(), "volcano-system", 0.0)
    assert not cluster.answers


async def test_what_reads_is_stopped_before_the_connections_close() -> None:
    """A reader would call a closed connection a lost server, and log that for every kind at each orderly end."""
    ends: list[str] = []

    class Reading:
        async def stop(self) -> None:
            ends.append("informers")

    class Server:
        async def close(self) -> None:
            ends.append("connections")

    async def work() -> None:
        ends.append("work")

    common = Common(
        leader_elect=False,
        lease_namespace="",
        lease_name="",
        timing=LeaseTiming(),
        metrics_address="",
        health_address="",
    )
    with pytest.raises(StratoError, match="the part stopped"):
        await serve(
            cast(Cluster, Server()),
            Random(1),
            common,
            [RunningComponent(name="part", work=work)],
            Registry(),
            informers=cast(Informers, Reading()),
        )
    assert ends == ["work", "informers", "connections"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def serving(registry: Registry | None, tls: TlsFiles | None = None) -> AsyncIterator[str]:
    port = free_port()
    endpoint = MonitoringEndpoint(flag="--listen-address", address=f"127.0.0.1:{port}", metrics=registry, tls=tls)
    task = asyncio.ensure_future(serve_endpoint(endpoint))
    try:
        while True:
            assert not task.done(), task.exception()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                break
            await asyncio.sleep(0.01)
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_metrics_and_health_are_served(caplog: pytest.LogCaptureFixture) -> None:
    """Without a line in the log for each: probes come every few seconds."""
    caplog.set_level(logging.INFO)
    registry = Registry()
    registry.counter("strato_things", "Things.").inc(3)
    async with serving(registry) as address, aiohttp.ClientSession() as session:
        async with session.get(f"{address}/metrics") as answer:
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/plain; version=")
            assert "strato_things_total 3.0" in await answer.text()
        async with session.get(f"{address}/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        async with session.get(f"{address}/else") as answer:
            assert answer.status == 404
    assert [record.message for record in caplog.records if "/metrics" in record.getMessage()] == []


async def test_bad_requests_are_refused_as_by_the_api_server() -> None:
    async with serving(Registry()) as address:
        assert await wrongly_answered(int(address.rpartition(":")[2])) == []


async def test_health_alone_may_be_served_over_tls(tmp_path: Path) -> None:
    now = SystemClock().now()
    authority = Authority.make("test", now_seconds=now, days=1)
    issued = authority.server("health", ["127.0.0.1"], now_seconds=now, days=1)
    files = TlsFiles(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key", authority=tmp_path / "ca.crt")
    files.certificate.write_bytes(issued.certificate)
    files.key.write_bytes(issued.private_key)
    files.authority.write_bytes(authority.pair.certificate)
    context = ssl.create_default_context(cafile=str(files.authority))
    async with serving(None, files) as address, aiohttp.ClientSession() as session:
        async with session.get(f"{address}/healthz", ssl=context) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        async with session.get(f"{address}/metrics", ssl=context) as answer:
            assert answer.status == 404


async def test_serving_metrics_leaves_signals_to_the_caller() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serving(Registry()):
        assert signal.getsignal(signal.SIGTERM) is before


async def test_a_taken_address_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=address):
            await serve_endpoint(MonitoringEndpoint(flag="--healthz-address", address=address, metrics=None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(":8080", ("", 8080), id="an empty host is every address, as in Go"),
        pytest.param("0.0.0.0:1", ("0.0.0.0", 1), id="everybody"),
        pytest.param("[::1]:9", ("::1", 9), id="IPv6 in brackets"),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert split_address(text, "--listen-address") == expected


@pytest.mark.parametrize("text", ["8080", "host:", "host:http", "host:99999"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--healthz-address .*write host:port"):
        split_address(text, "--healthz-address")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(
            ("--leader-elect-renew-deadline", "20s"), "longer than its renew deadline", id="a deadline past the lease"
        ),
        pytest.param(("--leader-elect-retry-period", "soon"), "'soon' is not a duration", id="no duration"),
        pytest.param(("--kubeconfig", "/does/not/exist"), "/does/not/exist: cannot be read", id="no kubeconfig"),
    ],
)
def test_bad_options_are_told_without_a_traceback(options: tuple[str, ...], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "strato.cli.main", "run", "scheduler", *options],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--hollow-nodes", "0"), "no nodes: give --sandbox or --hollow-nodes N", id="no nodes at all"),
        pytest.param(("--hollow-nodes", "-1"), "-1: is no shape", id="less than none"),
        pytest.param(("--sandbox", "--cpus", "many"), "'--cpus': 'many' is not a quantity", id="cpus that are none"),
        pytest.param(("--sandbox", "--node-memory", "0"), "'0' is not above zero", id="a machine without memory"),
        pytest.param(("--sandbox", "--pod-network", "lan"), "'lan' is not one of", id="an unknown network"),
        pytest.param(("--sandbox", "--kubelet-port", "1"), "--client-ca-file go together", id="logs for anybody"),
        pytest.param(("--sandbox", "--client-ca-file", "f"), "--client-ca-file go together", id="logs nowhere"),
        pytest.param(
            ("--kubelet-port", "1", "--client-ca-file", "f"), "and with --sandbox", id="logs of nodes that have none"
        ),
    ],
)
def test_a_node_that_cannot_be_is_refused(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "node", *options])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_machine_is_one_node_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path)
    with home.held("up"):
        home.write_ready({"node": {"name": "here"}})
        with pytest.raises(SystemExit) as ended:
            main(["--home", str(tmp_path), "run", "node", "--sandbox"])
        assert ended.value.code == 2
        assert f"this machine is a node of the cluster of {tmp_path} already" in capsys.readouterr().err
