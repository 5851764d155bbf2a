"""Client of a registry: manifests and blobs of one repository, with the authentication that the registry asks for.

Source: OCI distribution specification 1.1; the distribution project's token authentication.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import urlencode, urljoin, urlsplit

from strato.errors import StateError, one_line
from strato.http.client import Answer, BadAnswer
from strato.http.fetch import fetch, follow
from strato.http.proxies import Proxy, basic, proxy_for
from strato.http.tls import client_context
from strato.node.images.credentials import Credential
from strato.node.images.documents import (
    MANIFEST_TYPES,
    MAX_DOCUMENT_BYTES,
    MAX_INDEX_DEPTH,
    OCI_MANIFEST,
    Descriptor,
    ImageManifest,
    digest_of_bytes,
    manifest_of,
    parse,
    suiting,
)
from strato.node.images.references import DOCKER_HUB, ImageReference
from strato.node.images.rootwriter import BadImage

_IDLE_SECONDS, _TOKEN_SECONDS = 60.0, 60.0
_SLOWEST_BYTES = 64 << 10
"""Bytes of a body that have to arrive within `_IDLE_SECONDS`: else a registry that sends a byte at a time would keep a
pull waiting for ever."""
_TOKEN_BYTES, _ERROR_BYTES = 1 << 20, 64 << 10
_UPLOAD_BYTES = 8 << 20
"""Size of one piece of an upload."""
_CHALLENGE = re.compile(r'(?<![A-Za-z])([A-Za-z]++)="((?:[^"\\]|\\.)*+)"')
"""One parameter of a challenge. The pattern takes linear time, because a registry may be hostile."""
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")

Progress = Callable[[str, int, int], None]
"""Called with a blob's digest, the bytes transferred so far, and its size."""


class RegistryProblem(StateError):
    """A registry refuses a request; the message has its answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How registries are reached."""

    mirrors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Registry → URLs of mirrors, which are tried before it; ``*`` applies to all registries."""
    insecure: frozenset[str] = frozenset()
    """Registries whose certificates are not checked, and that may speak plain HTTP; this machine's own always may."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, which name proxies and Docker's configuration."""


@dataclass(frozen=True, slots=True)
class RegistryEndpoint:
    """A URL at which a registry or its mirror is reached."""

    url: str
    is_insecure: bool = False
    is_mirror: bool = False


def endpoints(registry: str, settings: RegistrySettings, *, mirrors: bool = True) -> list[RegistryEndpoint]:
    """Return the endpoints for a registry's images, in the order in which to try them."""
    named = (*settings.mirrors.get(registry, ()), *settings.mirrors.get("*", ())) if mirrors else ()
    found = [RegistryEndpoint(url.rstrip("/"), urlsplit(url).netloc in settings.insecure, True) for url in named]
    host = "registry-1.docker.io" if registry == DOCKER_HUB else registry
    if registry in settings.insecure or _LOOPBACK.fullmatch(host):
        return [*found, RegistryEndpoint(f"https://{host}", True), RegistryEndpoint(f"http://{host}", True)]
    return [*found, RegistryEndpoint(f"https://{host}")]


class Repository:
    """One repository of a registry, as one user sees it.

    Args:
        credential: Credentials of the user; None for anonymous access.
        actions: Actions that requested tokens must allow.
    """

    def __init__(
        self,
        endpoint: RegistryEndpoint,
        reference: ImageReference,
        credential: Credential | None,
        settings: RegistrySettings,
        actions: str = "pull",
    ) -> None:
        self._endpoint = endpoint
        self._reference = reference
        self._credential = credential
        self._settings = settings
        self._actions = actions
        self._authorization = ""
        self._unchecked = client_context(insecure=True) if endpoint.is_insecure else None

    async def resolve(self) -> tuple[str, ImageManifest]:
        """Return the digest of the referenced manifest or index, and the manifest of the image for this machine.

        Raises:
            RegistryProblem: The registry refuses the request.
            BadImage: The answer is no usable manifest.
        """
        version, name = self._reference.version, self._reference.familiar
        text = await self._document(version)
        digest = digest_of_bytes(text)
        document = parse(text, f"the manifest of {name}")
        for _ in range(MAX_INDEX_DEPTH):
            if "manifests" not in document:
                return digest, manifest_of(document)
            found = suiting(document)
            if not found:
                raise BadImage(f"{name} has no image for this machine's platform")
            document = parse(await self._document(found[0].digest), f"the manifest {found[0].digest}")
        raise BadImage(f"{name} names indexes of indexes without end")

    async def _document(self, version: str) -> bytes:
        accept = ", ".join(MANIFEST_TYPES)
        async with self._ask("GET", f"manifests/{version}", headers=[("Accept", accept)]) as (answer, url):
            text = await _short_body(answer, MAX_DOCUMENT_BYTES)
            reported = answer.headers.get("docker-content-digest", "")
        digest = digest_of_bytes(text)
        if digest not in (version, reported) and (version.startswith("sha256:") or reported.startswith("sha256:")):
            raise BadImage(f"{url} has the digest {digest}, not {version if ':' in version else reported}")
        return text

    async def download(self, blob: Descriptor, target: BinaryIO, progress: Progress) -> None:
        """Write a blob to a file, at most as many bytes as its descriptor says; the caller has to check the digest.

        Raises:
            RegistryProblem: The registry refuses the request.
            BadImage: The blob is longer or shorter than its descriptor says.
        """
        done = 0
        async with self._ask("GET", f"blobs/{blob.digest}") as (answer, url):

            def take(piece: bytes) -> None:
                nonlocal done
                done += len(piece)
                if done > blob.size:
                    raise BadImage(f"{url} is longer than the {blob.size} bytes its descriptor says")
                target.write(piece)
                progress(blob.digest, done, blob.size)

            await _received(answer, take)
        if done < blob.size:
            raise BadImage(f"{url} has {done} bytes, not the {blob.size} its descriptor says")

    async def upload(self, blob: Descriptor, source: BinaryIO, progress: Progress) -> None:
        """Upload a blob, unless the registry has it.

        Raises:
            RegistryProblem: The registry refuses the blob.
        """
        try:
            async with self._ask("HEAD", f"blobs/{blob.digest}"):
                return
        except RegistryProblem as err:
            if err.status != 404:
                raise
        async with self._ask("POST", "blobs/uploads/") as (answer, url):
            place = urljoin(url, answer.headers.get("location", ""))
        done = 0
        while data := source.read(_UPLOAD_BYTES):
            headers = [
                ("Content-Type", "application/octet-stream"),
                ("Content-Range", f"{done}-{done + len(data) - 1}"),
            ]
            async with self._ask("PATCH", place, headers=headers, body=data) as (answer, url):
                place = urljoin(url, answer.headers.get("location", ""))
            done += len(data)
            progress(blob.digest, done, blob.size)
        async with self._ask("PUT", f"{place}{'&' if '?' in place else '?'}{urlencode({'digest': blob.digest})}"):
            return

    async def put_manifest(self, text: bytes) -> None:
        """Upload a manifest whose blobs the registry has.

        Raises:
            RegistryProblem: The registry refuses the manifest.
        """
        path = f"manifests/{self._reference.version}"
        async with self._ask("PUT", path, headers=[("Content-Type", OCI_MANIFEST)], body=text):
            return

    # Requests

    @asynccontextmanager
    async def _ask(
        self, method: str, path: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
    ) -> AsyncIterator[tuple[Answer, str]]:
        """Send a request with the authentication that the registry asks for; yield a successful answer and its URL."""
        url = path if "://" in path else f"{self._endpoint.url}/v2/{self._reference.repository}/{path}"
        if self._endpoint.is_mirror and method == "GET":
            url += f"?{urlencode({'ns': self._reference.registry})}"
        for has_been_asked in (False, True):
            # an upload may be redirected to another host, which must not get the credentials
            own = urlsplit(url)[:2] == urlsplit(self._endpoint.url)[:2]
            given = [("Authorization", self._authorization)] if self._authorization and own else []
            try:
                answering = follow(
                    url,
                    method,
                    headers=[*headers, *given],
                    body=body,
                    tls=self._tls,
                    proxy=self._proxy,
                    idle_seconds=_IDLE_SECONDS,
                )
                async with AsyncExitStack() as stack:
                    async with _in_time("it does not begin its answer"):
                        answer, source = await stack.enter_async_context(answering)
                    if answer.status == 401 and not has_been_asked:
                        await self._authenticate(answer.headers.get("www-authenticate", ""))
                        continue
                    if answer.status >= 300:
                        text = await _short_body(answer, _ERROR_BYTES) if method != "HEAD" else b""
                        raise RegistryProblem(f"{method} {url}: {_problem(answer.status, text)}", answer.status)
                    yield answer, source
                    return
            except (OSError, ValueError) as err:  # ValueError: the registry sent an unusable URL or token
                raise RegistryProblem(f"{method} {url}: {one_line(err)}") from err

    def _tls(self, url: str) -> ssl.SSLContext | None:
        """Return a context without certificate checks for insecure registries; None uses the system's authorities."""
        parts = urlsplit(url)
        is_own = parts.netloc == urlsplit(self._endpoint.url).netloc
        return self._unchecked if parts.scheme == "https" and is_own and self._endpoint.is_insecure else None

    def _proxy(self, url: str) -> Proxy | None:
        return proxy_for(url, self._settings.environ)

    async def _authenticate(self, challenge: str) -> None:
        """Answer a challenge: get a token or use basic authentication for the next requests."""
        kind, _, rest = challenge.partition(" ")
        asked, credential = dict(_CHALLENGE.findall(rest)), self._credential
        pair = basic(f"{credential.username}:{credential.password}".encode()) if credential else ""
        if kind.lower() == "basic" and credential is not None and credential.username:
            self._authorization = pair
        elif kind.lower() == "bearer" and asked.get("realm"):
            self._authorization = f"Bearer {await self._token(asked, pair)}"

    async def _token(self, asked: Mapping[str, str], pair: str) -> str:
        realm, registry = urlsplit(asked["realm"]), urlsplit(self._endpoint.url)
        if realm.scheme != "https" and registry.scheme == "https":
            raise RegistryProblem(f"{registry.netloc} wants credentials sent in clear text, to {realm.geturl()!r}")
        query = {"service": asked["service"]} if asked.get("service") else {}
        query["scope"] = f"repository:{self._reference.repository}:{self._actions}"
        credential, url, body, headers = self._credential, realm.geturl(), b"", [("Accept", "application/json")]
        method = "GET"
        if credential is not None and credential.identity_token:
            form = {"grant_type": "refresh_token", "refresh_token": credential.identity_token, "client_id": "strato"}
            method, body = "POST", urlencode(form | query).encode()
            headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        else:
            url += f"{'&' if realm.query else '?'}{urlencode(query)}"
            headers += [("Authorization", pair)] if credential is not None else []
        tls, proxy = self._tls(url), self._proxy(url)
        answer = await fetch(
            url,
            method,
            headers=headers,
            body=body,
            tls=tls,
            proxy=proxy,
            limit_bytes=_TOKEN_BYTES,
            seconds=_TOKEN_SECONDS,
        )
        if answer.status != 200:
            raise RegistryProblem(
                f"{realm.netloc} gives no token: {_problem(answer.status, answer.body)}", answer.status
            )
        try:
            found = json.loads(answer.body)
            return str(found.get("token") or found["access_token"])
        except (ValueError, KeyError, AttributeError, RecursionError) as err:
            raise RegistryProblem(f"{realm.netloc} answers with no token") from err


@asynccontextmanager
async def _in_time(what: str) -> AsyncIterator[asyncio.Timeout]:
    """Raise `TimeoutError` with a reason when what is inside takes too long; it may ask for more time."""
    try:
        async with asyncio.timeout(_IDLE_SECONDS) as limit:
            yield limit
    except TimeoutError as err:
        raise TimeoutError(str(err) or f"{what} within {_IDLE_SECONDS:g} s") from err


async def _received(answer: Answer, take: Callable[[bytes], None]) -> None:
    """Take a body as it comes.

    Raises:
        OSError: It ended early, or comes too slowly.
    """
    came = 0
    async with _in_time(f"it does not send {_SLOWEST_BYTES} bytes") as limit:
        async for piece in answer.chunks():
            take(piece)
            came += len(piece)
            if came >= _SLOWEST_BYTES:
                came = 0
                limit.reschedule(asyncio.get_running_loop().time() + _IDLE_SECONDS)


async def _short_body(answer: Answer, most_bytes: int) -> bytes:
    """Return a short body.

    Raises:
        OSError: It ended early, comes too slowly or is longer than ``most_bytes``.
    """
    text = bytearray()

    def take(piece: bytes) -> None:
        text.extend(piece)
        if len(text) > most_bytes:
            raise BadAnswer(f"its answer is longer than {most_bytes} bytes")

    await _received(answer, take)
    return bytes(text)


def _problem(status: int, text: bytes) -> str:
    """Return the error in an answer, in one line."""
    try:
        errors = json.loads(text)["errors"]
        reported = "; ".join(f"{one['code']}: {one.get('message', '')}" for one in errors[:3])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        reported = text.decode(errors="replace")
    return f"{status} {' '.join(reported.split())[:300]}".rstrip()
