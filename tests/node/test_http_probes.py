"""httpGet of probes and hooks, over real sockets."""

from __future__ import annotations

import pytest

from strato.api.core import Container, ContainerPort, HTTPGetAction, HTTPHeader
from strato.api.wire import Request, Response
from strato.clock import SystemClock
from strato.http.listen import serve
from strato.http.plain import PlainService, text
from strato.http.tls import load_pair, server_context
from strato.node.sandbox.probes import answers
from strato.pki import Authority


def tls():
    now = SystemClock().now()
    pair = Authority.make("nobody knows", now_seconds=now, days=1).server("x", ["x"], now_seconds=now, days=1)
    context = server_context()
    load_pair(context, pair.certificate, pair.private_key)
    return context


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (302, True), (399, True), (400, False), (503, False)])
async def test_http_get_succeeds_from_200_to_399(scheme: str, status: int, succeeds: bool) -> None:
    asked: list[Request] = []

    async def handle(request: Request) -> Response:
        asked.append(request)
        return text("", status)

    server = await serve(PlainService(handle), tls=tls() if scheme == "HTTPS" else None)
    try:
        spec = Container(name="c", ports=(ContainerPort(name="web", container_port=server.port),))
        headers = (HTTPHeader(name="Host", value="a.test"), HTTPHeader(name="X-A", value="1"))
        get = HTTPGetAction(path="healthz?full=1", port="web", scheme=scheme, http_headers=headers)
        assert await answers(get, "127.0.0.1", spec) is succeeds
    finally:
        await server.stop()
    (request,) = asked
    assert (request.method, request.path, dict(request.query)) == ("GET", "/healthz", {"full": ["1"]})
    assert (request.headers["host"], request.headers["x-a"]) == ("a.test", "1")
    assert request.headers["user-agent"].startswith("kube-probe/1.")


async def test_a_header_of_a_pod_cannot_become_two() -> None:
    get = HTTPGetAction(port=1, http_headers=(HTTPHeader(name="X", value="a\r\nY: b"),))
    with pytest.raises(ValueError, match="the header X cannot be sent"):
        await answers(get, "127.0.0.1", Container(name="c"))


async def test_a_probe_asks_the_host_that_it_names_and_otherwise_the_pod() -> None:
    async def handle(request: Request) -> Response:
        return text("", 200)

    server = await serve(PlainService(handle))
    elsewhere = "127.0.0.9"  # where nothing listens
    try:
        spec = Container(name="c")
        assert await answers(HTTPGetAction(port=server.port, host="127.0.0.1"), elsewhere, spec)
        with pytest.raises(OSError, match=r"127\.0\.0\.9"):
            await answers(HTTPGetAction(port=server.port, host=elsewhere), "127.0.0.1", spec)
    finally:
        await server.stop()
