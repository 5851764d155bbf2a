"""Requests passed on to pods and services, to real servers behind the pods' ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strato.api.wire import Request, Response, User
from strato.clock import SystemClock
from strato.http.listen import serve
from strato.http.plain import PlainService, text
from strato.http.tls import load_pair, server_context
from strato.pki import Authority
from strato.server.embedded import in_memory_server
from strato.server.rest import proxy as module
from tests.server.asking import ADMIN, Client
from tests.server.rest.test_streams import Source

ROOT = "/api/v1/namespaces/default"
PAGE = '<a href="/other">x</a> <a href="//far/away"> <img SRC=\'/i.png\'> <a href="near">'


class World:
    def __init__(self) -> None:
        self.server = in_memory_server(SystemClock())
        self.source = Source()
        self.server.use_streams(self.source)
        self.asked: list[Request] = []
        self.answer = text("hello")

    async def answered(self, request: Request) -> Response:
        self.asked.append(request)
        return self.answer

    async def ask(self, path: str, method: str = "GET", *, body: bytes = b"", **more: Any) -> Any:
        query = more.get("query", {})
        response = await self.server.handle(
            Request(method, f"{ROOT}/{path}", query, more.get("headers", {}), body, ADMIN)
        )
        content = response.body
        if response.stream is not None:
            content = b"".join([chunk async for chunk in response.stream])
        return response.status, content.decode(), response.headers


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    client = Client(world.server)
    ports = [{"containerPort": 8080, "protocol": "UDP"}, {"containerPort": 90}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": ports}]}
    await client.ask("POST", f"{ROOT}/pods", {"metadata": {"name": "p"}, "spec": spec})
    service = {"ports": [{"name": "web", "port": 80}, {"name": "tls", "port": 443}]}
    await client.ask("POST", f"{ROOT}/services", {"metadata": {"name": "s"}, "spec": service})
    now = SystemClock().now()
    pair = Authority.make("nobody knows", now_seconds=now, days=1).server("x", ["x"], now_seconds=now, days=1)
    tls = server_context()
    load_pair(tls, pair.certificate, pair.private_key)
    plain = await serve(PlainService(world.answered))
    secure = await serve(PlainService(world.answered), tls=tls)
    world.source.ports = {90: plain.port, 443: secure.port}
    yield world
    await plain.stop()
    await secure.stop()
    assert not world.server._proxy._open


def endpoints(**reference: str) -> dict[str, Any]:
    address = {"ip": "10.0.0.1"} | ({"targetRef": reference} if reference else {})
    ports = [{"name": "web", "port": 90}, {"name": "tls", "port": 443}]
    return {"metadata": {"name": "s"}, "subsets": [{"addresses": [address], "ports": ports}]}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_request_reaches_the_pod_as_it_is(world: World, method: str) -> None:
    headers = {"authorization": "Bearer secret", "x-own": "1", "host": "api", "connection": "close"}
    asked = {"q": ["1", "2"]}
    status, body, _ = await world.ask("pods/p:90/proxy/a b/c/", method, body=b"x", headers=headers, query=asked)
    assert (status, body) == (200, "hello")
    (request,) = world.asked
    assert (request.method, request.path, dict(request.query)) == (method, "/a b/c/", {"q": ["1", "2"]})
    assert request.body == b"x"
    assert request.headers["x-own"] == "1"
    assert "authorization" not in request.headers
    assert request.headers["host"] == "p:90"


@pytest.mark.parametrize("name", ["p", "p:90", "http:p:90", "https:p:443"])
async def test_port_and_scheme_stand_in_the_name(world: World, name: str) -> None:
    assert (await world.ask(f"pods/{name}/proxy/"))[:2] == (200, "hello")


@pytest.mark.parametrize("name", ["s:web", "s:80", "https:s:tls", "https:s:443"])
async def test_a_service_leads_to_one_of_its_pods(world: World, name: str) -> None:
    await Client(world.server).ask("POST", f"{ROOT}/endpoints", endpoints(kind="Pod", name="p"))
    assert (await world.ask(f"services/{name}/proxy/x"))[:2] == (200, "hello")


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("pods/none:90/proxy/", 404, "pods"),
        ("pods/p:91/proxy/", 400, "Connection refused"),
        ("pods/p:web/proxy/", 400, "no number from 1 to 65535"),
        ("pods/p:99999999999/proxy/", 400, "no number from 1 to 65535"),
        ("pods/ftp:p:90/proxy/", 400, "SCHEME:NAME:PORT"),
        ("pods/a:b:c:d/proxy/", 400, "SCHEME:NAME:PORT"),
        ("services/s:81/proxy/", 503, "no service port 81 found"),
        ("services/s:other/proxy/", 503, "no endpoints available"),
        ("services/s:web/proxy/", 503, "the endpoint 10.0.0.1 of service"),
        ("services/s/proxy/", 503, "no endpoints available"),
    ],
)
async def test_what_cannot_be_reached_says_why(world: World, path: str, code: int, message: str) -> None:
    await Client(world.server).ask("POST", f"{ROOT}/endpoints", endpoints())
    status, body, _ = await world.ask(path)
    assert (status, message in body) == (code, True), body


async def test_a_path_without_an_end_leads_to_the_one_with_it(world: World) -> None:
    status, _, headers = await world.ask("pods/p:90/proxy", query={"a": ["b"]})
    assert (status, headers["Location"]) == (301, f"{ROOT}/pods/p%3A90/proxy/?a=b")
    assert (await world.ask("pods/p:90/proxy", "POST"))[0] == 200


async def test_links_and_redirects_of_the_pod_lead_through_the_proxy(world: World) -> None:
    prefix = f"{ROOT}/pods/p:90/proxy"
    world.answer = Response(200, PAGE.encode(), "text/html; charset=utf-8")
    _, body, _ = await world.ask("pods/p:90/proxy/")
    assert body == PAGE.replace('"/other"', f'"{prefix}/other"').replace("'/i.png'", f"'{prefix}/i.png'")
    world.answer = Response(302, b"", "text/plain", {"Location": "/elsewhere?x=1"})
    status, _, headers = await world.ask("pods/p:90/proxy/")
    assert (status, headers["location"]) == (302, f"{prefix}/elsewhere?x=1")


async def test_headers_of_the_connection_to_the_pod_are_not_passed_back(world: World) -> None:
    world.answer = Response(200, b"hello", "text/x-own", {"X-Own": "1", "Proxy-Authenticate": "Basic"})
    status, body, headers = await world.ask("pods/p:90/proxy/")
    assert (status, body, dict(headers)) == (200, "hello", {"x-own": "1"})


async def test_a_large_page_stays_as_it_is(world: World) -> None:
    world.answer = Response(200, PAGE.encode() * 20_000, "text/html")
    assert (await world.ask("pods/p:90/proxy/"))[1] == PAGE * 20_000


async def test_an_answer_that_nobody_reads_is_let_go(world: World) -> None:
    response = await world.server.handle(Request("GET", f"{ROOT}/pods/p:90/proxy/", user=ADMIN))
    assert world.server._proxy._open == {ADMIN.name: 1}
    await response.stream.aclose()  # type: ignore[union-attr]  # it has one


async def test_a_head_has_no_body(world: World) -> None:
    assert (await world.ask("pods/p:90/proxy/", "HEAD"))[:2] == (200, "")


async def test_so_many_are_passed_on_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 1)

    async def ask(user: str) -> Response:
        return await world.server.handle(Request("GET", f"{ROOT}/pods/p:90/proxy/", user=User(user, ADMIN.groups)))

    first, second, other = [await ask(user) for user in ("a", "a", "b")]
    assert [one.status for one in (first, second, other)] == [200, 429, 200]
    await first.stream.aclose()  # type: ignore[union-attr]  # it has one
    again = await ask("a")
    monkeypatch.setattr(module, "MOST_PROXIED", 2)
    assert [again.status, (await ask("c")).status] == [200, 429]
    for one in (again, other):
        await one.stream.aclose()  # type: ignore[union-attr]  # it has one


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 999 OK\r\n\r\nx", 503),
        (b"HTTP/1.1 600\r\n\r\n", 503),
        (b"HTTP/1.1 301\r\nLocation: http://[\r\n\r\n", 301),
        (b"HTTP/1.1 301\r\nLocation: //[::1/\r\n\r\n", 301),
        (b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n", 503),
        (b"HTTP/1.1 100 Continue\r\n\r\n", 503),
        (b"nonsense", 503),
        (b"", 503),
    ],
)
async def test_whatever_a_pod_answers_is_passed_on_or_told_to_be_none(world: World, answer: bytes, status: int) -> None:
    async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(pod, "127.0.0.1", 0)
    async with server:
        world.source.ports[90] = server.sockets[0].getsockname()[1]
        assert (await world.ask("pods/p:90/proxy/"))[0] == status


def test_a_page_is_cut_before_its_tags() -> None:
    page = PAGE * 3000 + "<" + "x" * 100_000 + PAGE
    pieces = list(module._pieces(page))
    assert "".join(pieces) == page
    assert max(map(len, pieces)) <= module._PIECE_CHARACTERS
    assert all(piece.startswith("<") or set(piece) == {"x"} or piece.endswith(PAGE) for piece in pieces)


async def test_policies_refuse_connections(world: World) -> None:
    client, group = Client(world.server), "/apis/admissionregistration.k8s.io/v1"
    rules = [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/proxy"]}]
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.kind == 'PodProxyOptions' && object.path != 'secret'"}],
    }
    await client.ask("POST", f"{group}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    path = f"{group}/validatingadmissionpolicybindings"
    await client.ask("POST", path, {"metadata": {"name": "p"}, "spec": bound})
    status, content, _ = await world.ask("pods/p/proxy/secret")
    assert (status, "denied request: failed expression" in content) == (422, True)
    assert (await world.ask("pods/p/proxy/open"))[0] == 200
