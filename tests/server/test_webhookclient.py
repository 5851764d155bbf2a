"""Calls of webhooks, over real sockets: where they go, what is believed, what is not waited for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Response
from strato.errors import TooManyRequests
from strato.server import webhookclient
from strato.server.webhookclient import CallFailed, WebhookClient

from .webhookserver import Json, bundle, webhook

SECONDS = 20.0


class Objects:
    """What is stored, by kind."""

    def __init__(self) -> None:
        self.stored: dict[Kind, list[Json]] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return next((one for one in self.list(kind, namespace) if one["metadata"]["name"] == name), None)

    def list(self, kind: Kind, namespace: str) -> list[Json]:
        return self.stored.get(kind, [])


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
async def client(objects: Objects) -> AsyncIterator[WebhookClient]:
    client = WebhookClient(objects)
    yield client
    await client.close()


def a_service(**spec: Any) -> Json:
    return {"metadata": {"name": "hook", "namespace": "default"}, "spec": spec}


def a_slice(port: int, *, name: str = "", **endpoint: Any) -> Json:
    labels = {"kubernetes.io/service-name": "hook"}
    return {
        "metadata": {"name": "hook-1", "labels": labels},
        "ports": [{"name": name, "port": port}],
        "endpoints": [{"addresses": ["127.0.0.1"], **endpoint}],
    }


SERVICE = {"namespace": "default", "name": "hook", "path": "/a"}


async def test_a_url_is_asked_and_told_how_long_it_may_take(client: WebhookClient) -> None:
    async with webhook(lambda _: Response(200, b"fine")) as hook:
        assert await client.post(hook.url("/a?x=1"), b"{}", SECONDS) == b"fine"
        assert await client.post(hook.url("/a"), b"{}", 7) == b"fine"
    assert [(one.path, dict(one.query)) for one in hook.sent] == [
        ("/a", {"x": ["1"], "timeout": ["20s"]}),
        ("/a", {"timeout": ["7s"]}),
    ]
    assert hook.sent[0].headers["content-type"] == "application/json"


async def test_a_service_is_asked_at_a_ready_pod_under_its_own_name(client: WebhookClient, objects: Objects) -> None:
    async with webhook(lambda _: Response(200, b"fine")) as hook:
        objects.stored = {
            catalog.SERVICE: [a_service(ports=[{"port": 443, "name": "tls"}, {"port": 80, "name": "other"}])],
            catalog.ENDPOINTSLICE: [
                a_slice(1, name="tls", conditions={"ready": False}),
                a_slice(1, name="other"),
                a_slice(hook.port, name="tls"),
            ],
        }
        assert await client.post({"service": SERVICE, "caBundle": bundle()}, b"{}", SECONDS) == b"fine"
    assert hook.sent[0].headers["host"] == "hook.default.svc:443"
    assert hook.sent[0].path == "/a"


@pytest.mark.parametrize(
    ("services", "slices", "want"),
    [
        pytest.param([], [], 'service "hook" not found', id="no service"),
        pytest.param([a_service(ports=[{"port": 80}])], [], "no service port 443 found", id="another port"),
        pytest.param([a_service(ports=[{"port": 443}])], [], "no endpoints available", id="no pods"),
        pytest.param(
            [a_service(ports=[{"port": 443}])],
            [a_slice(1, conditions={"ready": False})],
            "no endpoints available",
            id="no pod is ready",
        ),
        pytest.param(
            [a_service(type="ExternalName", externalName="a..b")], [], "hook.default.svc", id="a name that is none"
        ),
    ],
)
async def test_a_service_that_cannot_be_reached_is_told(
    client: WebhookClient, objects: Objects, services: list[Json], slices: list[Json], want: str
) -> None:
    objects.stored = {catalog.SERVICE: services, catalog.ENDPOINTSLICE: slices}
    with pytest.raises(CallFailed, match=want):
        await client.post({"service": SERVICE, "caBundle": bundle()}, b"{}", SECONDS)


@pytest.mark.parametrize(
    ("status", "want"),
    [(500, "unexpected status 500"), (204, "unexpected status 204"), (307, "redirects are not followed")],
)
async def test_only_200_is_an_answer(client: WebhookClient, status: int, want: str) -> None:
    async with webhook(lambda _: Response(status, headers={"Location": "/elsewhere"})) as hook:
        with pytest.raises(CallFailed, match=want):
            await client.post(hook.url(), b"{}", SECONDS)
    assert len(hook.sent) == 1


async def test_an_answer_has_a_largest_size(client: WebhookClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhookclient, "ANSWER_BYTES", 1000)
    async with webhook(lambda _: Response(200, bytes(1001))) as hook:
        with pytest.raises(CallFailed, match="longer than 1000 bytes"):
            await client.post(hook.url(), b"{}", SECONDS)


async def test_a_webhook_that_is_silent_or_gone_is_not_waited_for(client: WebhookClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(CallFailed, match="context deadline exceeded"):
            await client.post({"url": f"https://127.0.0.1:{port}/", "caBundle": bundle()}, b"{}", 0.1)
    with pytest.raises(CallFailed, match=f"127.0.0.1:{port}"):
        await client.post({"url": f"https://127.0.0.1:{port}/", "caBundle": bundle()}, b"{}", SECONDS)


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"url": "https://127.0.0.1:1/", "caBundle": "?"}, "caBundle is not base64"),
        ({"url": "https://127.0.0.1:1/", "caBundle": "anVuaw=="}, "is not PEM"),
        ({"url": "http://127.0.0.1:1/"}, "over https:// alone"),
        ({"url": "https:///"}, "no http"),
    ],
)
async def test_what_cannot_be_called_is_told(client: WebhookClient, config: Json, want: str) -> None:
    with pytest.raises(CallFailed, match=want):
        await client.post(config, b"{}", SECONDS)


async def test_a_certificate_of_somebody_else_is_not_believed(client: WebhookClient) -> None:
    async with webhook(lambda _: Response(200)) as hook:
        with pytest.raises(CallFailed, match="certificate verify failed"):
            await client.post({**hook.url(), "caBundle": ""}, b"{}", SECONDS)
    assert hook.sent == []


async def test_calls_are_limited_and_connections_used_again(
    client: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, now = [0], [0]

    async def busy(_: Json) -> Response:
        now[0] += 1
        most[0] = max(most[0], now[0])
        for _turn in range(5):
            await asyncio.sleep(0)
        now[0] -= 1
        return Response(200, b"fine")

    async with webhook(busy) as hook:
        answers = await asyncio.gather(*(client.post(hook.url(), b"{}", SECONDS) for _ in range(60)))
        assert answers == [b"fine"] * 60
        assert 1 <= most[0] <= webhookclient.CALLS_OF_ONE
        monkeypatch.setattr(webhookclient, "CALLS_MAX", 1)
        outcomes = await asyncio.gather(
            *(client.post(hook.url(), b"{}", SECONDS) for _ in range(2)), return_exceptions=True
        )
    assert [type(one) for one in outcomes] == [bytes, TooManyRequests]
