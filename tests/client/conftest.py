from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from strato.api.wire import User
from strato.client.cluster import Cluster
from strato.client.config import ClusterConfig
from strato.client.http import HttpCluster
from strato.client.link import connect
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from tests.client.fakeserver import FakeServer, http_app


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture(params=["in this process", "over a link", "over HTTP"])
async def remote(request: pytest.FixtureRequest, server: FakeServer) -> AsyncIterator[Cluster]:
    """The same server through each transport."""
    if request.param == "in this process":
        yield LocalCluster(server, User("tester"))
        return
    if request.param == "over a link":
        near, far = socket.socketpair()
        asking, answering = await connect(near), await connect(far, server)
        yield LocalCluster(asking, User("tester"))
        await asking.close()
        await answering.close()
        return
    runner = web.AppRunner(http_app(server), shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    cluster = HttpCluster(ClusterConfig(server=f"http://{host}:{port}"), SystemClock())
    yield cluster
    await cluster.close()
    server.end_watches()
    await runner.cleanup()
