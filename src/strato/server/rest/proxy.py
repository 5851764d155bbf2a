"""``pods/proxy`` and ``services/proxy``: forward an HTTP request to a port of a pod.

Whatever runs the pod makes the connection in the pod's own network (`StreamSource.connect`), so that clients can reach
nothing but pods through the proxy: an endpoint of a service that names no pod is refused.

Source: k8s.io/apimachinery/pkg/util/proxy for the changes to requests and answers.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import quote, urlencode, urlsplit

from strato.api import catalog
from strato.api.wire import Request, Response
from strato.errors import BadRequest, TooManyRequests, Unavailable, one_line
from strato.http.client import Answer, BadAnswer, Connection, over
from strato.http.fetch import message
from strato.http.headers import STATUSES
from strato.http.tls import client_context
from strato.server.path import ResourcePath
from strato.server.preparation import Json
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.largewrites import admitted
from strato.server.rest.rights import ANONYMOUS
from strato.server.rest.state import State
from strato.server.rest.streams import PodStreams

MOST_PROXIED = 1024
"""Most concurrent requests of all users; each holds a connection."""
MOST_OF_ONE = 256
"""Most concurrent requests of one user."""
IDLE_SECONDS = 300.0
"""How long a pod may send nothing in the middle of an answer."""
_PAGE_BYTES = 1 << 20
"""Largest HTML page whose links are rewritten."""
_PIECE_CHARACTERS = 1 << 15
"""Characters of a page that are searched for links without yielding: 4 ms at most."""
_PREFIX_PARTS = 7  # api, v1, namespaces, NAMESPACE, pods, NAME, proxy
_OF_ONE_CONNECTION = frozenset(
    ("connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
_NOT_PASSED_ON = _OF_ONE_CONNECTION | {"authorization", "content-encoding", "expect", "host", "proxy-authorization"}
"""Headers of a single connection, credentials, and the body's encoding, which the server has decompressed."""
_NOT_PASSED_BACK = _OF_ONE_CONNECTION | {"content-type", "date", "proxy-authenticate"}
_LINK = re.compile(
    r"""(?P<before>\s(?:action|background|cite|codebase|data|formaction|href|longdesc|manifest|poster|profile|src|usemap)
    \s*=\s*(?P<quote>["']))(?P<path>/[^"'/][^"']*|/)(?P=quote)""",
    re.IGNORECASE | re.VERBOSE,
)


class Proxy:
    """Forwards requests to pods."""

    def __init__(self, state: State, streams: PodStreams) -> None:
        self._state = state
        self._streams = streams
        self._open: Counter[str] = Counter()
        """Number of requests under way, by user."""

    async def handle(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Forward the request and return the pod's answer.

        Raises:
            ApiError: There is no such pod or port, or it does not answer.
        """
        parts = request.path.lstrip("/").split("/")
        prefix, rest = "/" + "/".join(parts[:_PREFIX_PARTS]), "/".join(parts[_PREFIX_PARTS:])
        if self._state.dynamic.concerns(served.kind, "CONNECT", target.subresource):
            options = {"kind": f"{served.kind.name}ProxyOptions", "apiVersion": "v1", "path": rest}
            asked = storing.admission_request(request, target, served.kind, "CONNECT", options, None)
            await admitted(self._state, request, asked, lambda: Response(200))
        scheme, name, port = _split_name(target.name)
        if served.kind is catalog.POD:
            pod, number = self._pod_port(target.namespace, name, port)
        else:
            pod, number = self._endpoint(target.namespace, name, port)
        query = urlencode(request.query, doseq=True)
        if len(parts) == _PREFIX_PARTS and request.method in ("GET", "HEAD"):
            location = quote(prefix) + "/" + (f"?{query}" if query else "")
            return Response(301, b"", "text/html; charset=utf-8", {"Location": location})
        url = f"{scheme}://{name}:{number}/{quote(rest)}" + (f"?{query}" if query else "")
        user = (request.user or ANONYMOUS).name
        if self._open.total() >= MOST_PROXIED or self._open[user] >= MOST_OF_ONE:
            raise TooManyRequests(
                f"{MOST_OF_ONE} requests of a user and {MOST_PROXIED} in all are passed on to pods at a time",
                retry_after_seconds=1,
            )
        self._open[user] += 1
        try:
            connection, answer = await self._ask(request, url, pod, number)
        except BaseException:
            self._count_end(user)
            raise

        def end() -> None:
            connection.abort()
            self._count_end(user)

        return _passed_back(request, prefix, answer, end)

    def _count_end(self, user: str) -> None:
        self._open[user] -= 1
        if not self._open[user]:
            del self._open[user]

    async def _ask(self, request: Request, url: str, pod: Json, port: int) -> tuple[Connection, Answer]:
        headers = [(name, value) for name, value in request.headers.items() if name not in _NOT_PASSED_ON]
        sent = message(url, request.method, headers=[*headers, ("Connection", "close")], body=request.body)
        source = self._streams.source_of(pod)
        try:
            connection = await over(
                await source.connect(pod["metadata"]["uid"], port),
                client_context(insecure=True) if sent.secure else None,
            )
            answer = await connection.ask(sent.data, IDLE_SECONDS, stream=True)
            if answer.status not in STATUSES:
                connection.abort()
                raise BadAnswer(f"its answer has the status {answer.status}, which is none")
        except OSError as error:
            raise Unavailable(f"error trying to reach service: {one_line(error)}") from error
        return connection, answer

    def _pod_port(self, namespace: str, name: str, port: str) -> tuple[Json, int]:
        pod = self._state.require(catalog.POD, namespace, name)
        if port:
            return pod, _number(port)
        declared = (one for container in pod["spec"]["containers"] for one in container.get("ports") or ())
        return pod, next((one["containerPort"] for one in declared if one.get("protocol", "TCP") == "TCP"), 80)

    def _endpoint(self, namespace: str, name: str, port: str) -> tuple[Json, int]:
        """Return a random ready pod of a service, and its port."""
        service = self._state.require(catalog.SERVICE, namespace, name)
        if port.isdigit():
            named = [one.get("name", "") for one in service["spec"].get("ports") or () if str(one["port"]) == port]
            if not named:
                raise Unavailable(f'no service port {port} found for service "{name}"')
            port = named[0]
        endpoints = self._state.latest(catalog.ENDPOINTS, namespace, name) or {}
        found = list(_addresses(endpoints, port))
        if not found:
            raise Unavailable(f'no endpoints available for service "{name}"')
        address, number = self._state.rng.choice(found)
        reference = address.get("targetRef") or {}
        pod = self._state.latest(catalog.POD, namespace, reference.get("name", ""))
        if reference.get("kind") != "Pod" or pod is None:
            raise Unavailable(f'the endpoint {address.get("ip")} of service "{name}" is no pod of this cluster')
        return pod, number


def _passed_back(request: Request, prefix: str, answer: Answer, end: Callable[[], None]) -> Response:
    """Return a pod's answer, changed for the client; ``end`` is called when its body has ended or is dropped."""
    headers = {name: value for name, value in answer.headers.items() if name not in _NOT_PASSED_BACK}
    if "location" in headers:
        headers["location"] = _relocated(headers["location"], prefix)
    content_type = answer.headers.get("content-type", "application/octet-stream")
    if request.method == "HEAD" or answer.status in (204, 304):
        end()
        return Response(answer.status, b"", content_type, headers)
    is_page = content_type.startswith("text/html") and "content-encoding" not in headers
    stream = _Body(answer.chunks(), end, prefix if is_page else "")
    return Response(answer.status, b"", content_type, headers, stream)


def _addresses(endpoints: Json, port: str) -> Iterator[tuple[Json, int]]:
    for subset in endpoints.get("subsets") or ():
        for one in subset.get("ports") or ():
            if one.get("name", "") == port:
                for address in subset.get("addresses") or ():
                    yield address, one["port"]


def _split_name(text: str) -> tuple[str, str, str]:
    """Return scheme, name and port of ``[SCHEME:]NAME[:PORT]``.

    Raises:
        BadRequest: The text does not have this form.
    """
    parts = text.split(":")
    scheme, name, port = {1: ("", text, ""), 2: ("", *parts), 3: parts}.get(len(parts), ("?", "", ""))
    if scheme not in ("", "http", "https") or not name:
        raise BadRequest(f"invalid request {text!r}: write NAME, NAME:PORT or SCHEME:NAME:PORT with http or https")
    return scheme or "http", name, port


def _number(port: str) -> int:
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise BadRequest(f"port {port!r} is no number from 1 to 65535")
    return int(port)


def _relocated(location: str, prefix: str) -> str:
    """Return a pod's redirect with a path that leads through the proxy; text that is not a URL is left alone."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    return location if parts.netloc or not parts.path.startswith("/") else prefix + location


class _Body(AsyncIterator[bytes]):
    """The body of a pod's answer; links of a page to its own server are rewritten to lead through the proxy.

    Args:
        chunks: The body as it arrives.
        end: Frees the connection; called also if the body is never read.
        prefix: Prefix of rewritten paths; empty rewrites nothing. A page over `_PAGE_BYTES` is not rewritten either.
    """

    def __init__(self, chunks: AsyncIterator[bytes], end: Callable[[], None], prefix: str) -> None:
        self._chunks, self._prefix = chunks, prefix
        self._end: Callable[[], None] | None = end

    async def __anext__(self) -> bytes:
        try:
            return await self._page() if self._prefix else await anext(self._chunks)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()

    async def _page(self) -> bytes:
        prefix, self._prefix = self._prefix, ""
        page = bytearray()
        async for chunk in self._chunks:
            page += chunk
            if len(page) > _PAGE_BYTES:
                return bytes(page)
        rewritten = []
        for piece in _pieces(page.decode("latin-1")):
            rewritten.append(
                _LINK.sub(lambda found: f"{found['before']}{prefix}{found['path']}{found['quote']}", piece)
            )
            await asyncio.sleep(0)  # lets the loop serve other requests
        return "".join(rewritten).encode("latin-1")


def _pieces(text: str) -> Iterator[str]:
    """Split a page into pieces at the beginnings of tags, or anywhere if a piece would be too long."""
    start = 0
    while start < len(text):
        end = start + _PIECE_CHARACTERS
        if end < len(text):
            tag = text.rfind("<", start + 1, end)
            end = tag if tag > 0 else end
        yield text[start:end]
        start = end
