"""A registry, as a client: manifests and blobs of one repository, with whatever authentication it asks for.

Source: OCI distribution specification 1.1; the distribution project's token authentication.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import urlencode, urljoin, urlsplit

from strato.errors import StateError, one_line
from strato.http.client import Answer
from strato.http.fetch import fetch, follow, limited
from strato.http.proxies import Proxy, basic, proxy_for
from strato.http.tls import client_context
from strato.node.images.credentials import Credential
from strato.node.images.documents import (
    MANIFEST_TYPES,
    MAX_DOCUMENT_BYTES,
    MAX_INDEX_DEPTH,
    OCI_MANIFEST,
    Descriptor,
    Manifest,
    digest_of_bytes,
    manifest_of,
    parse,
    suiting,
)
from strato.node.images.references import DOCKER_HUB, ImageReference
from strato.node.images.rootwriter import BadImage

_IDLE_SECONDS, _TOKEN_SECONDS = 60.0, 60.0
_TOKEN_BYTES, _ERROR_BYTES = 1 << 20, 64 << 10
_UPLOAD_BYTES = 8 << 20
"""Of one piece of an upload."""
_CHALLENGE = re.compile(r'(?<![A-Za-z])([A-Za-z]++)="((?:[^"\\]|\\.)*+)"')
"""One parameter; in linear time, as a registry may be anybody's."""
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")

Progress = Callable[[str, int, int], None]
"""Called with a blob's digest, and how much of it there is of how many bytes."""


class RegistryProblem(StateError):
    """A registry does not give or take what it was asked; the message says what it answers."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How registries are reached."""

    mirrors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Registry → URLs that are asked before it; ``*`` is for all."""
    insecure: frozenset[str] = frozenset()
    """Registries whose certificates are not checked, and that may speak plain HTTP; this machine's own always may."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Where proxies are named, and Docker's configuration."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a registry is reached."""

    url: str
    is_insecure: bool = False
    is_mirror: bool = False


def endpoints(registry: str, settings: RegistrySettings, *, mirrors: bool = True) -> list[Endpoint]:
    """Return where to ask for a registry's images, in order."""
    named = (*settings.mirrors.get(registry, ()), *settings.mirrors.get("*", ())) if mirrors else ()
    found = [Endpoint(url.rstrip("/"), urlsplit(url).netloc in settings.insecure, True) for url in named]
    host = "registry-1.docker.io" if registry == DOCKER_HUB else registry
    if registry in settings.insecure or _LOOPBACK.fullmatch(host):
        return [*found, Endpoint(f"https://{host}", True), Endpoint(f"http://{host}", True)]
    return [*found, Endpoint(f"https://{host}")]


class Repository:
    """One repository of a registry, as one user sees it.

    Args:
        credential: Who asks; None is nobody in particular.
        actions: What tokens are to allow.
    """

    def __init__(
        self,
        endpoint: Endpoint,
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

    async def resolve(self) -> tuple[str, Manifest]:
        """Return the digest of what the reference names, and the manifest of its image for this machine.

        Raises:
            RegistryProblem: The registry does not say.
            BadImage: What it says cannot be used.
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
            text = await limited(answer, MAX_DOCUMENT_BYTES)
            reported = answer.headers.get("docker-content-digest", "")
        digest = digest_of_bytes(text)
        if digest not in (version, reported) and (version.startswith("sha256:") or reported.startswith("sha256:")):
            raise BadImage(f"{url} has the digest {digest}, not {version if ':' in version else reported}")
        return text

    async def download(self, blob: Descriptor, target: BinaryIO, progress: Progress) -> None:
        """Write a blob to a file, no more of it than its descriptor says; nothing is known of its digest yet.

        Raises:
            RegistryProblem: The registry does not give it.
            BadImage: It is longer or shorter.
        """
        done = 0
        async with self._ask("GET", f"blobs/{blob.digest}") as (answer, url):
            async for piece in answer.chunks():
                done += len(piece)
                if done > blob.size:
                    raise BadImage(f"{url} is longer than the {blob.size} bytes its descriptor says")
                target.write(piece)
                progress(blob.digest, done, blob.size)
        if done < blob.size:
            raise BadImage(f"{url} has {done} bytes, not the {blob.size} its descriptor says")

    async def upload(self, blob: Descriptor, source: BinaryIO, progress: Progress) -> None:
        """Give the registry a blob, unless it has it.

        Raises:
            RegistryProblem: It does not take it.
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
        """Give the registry a manifest whose blobs it has.

        Raises:
            RegistryProblem: It does not take it.
        """
        path = f"manifests/{self._reference.version}"
        async with self._ask("PUT", path, headers=[("Content-Type", OCI_MANIFEST)], body=text):
            return

    # Requests

    @asynccontextmanager
    async def _ask(
        self, method: str, path: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
    ) -> AsyncIterator[tuple[Answer, str]]:
        """Send a request, authenticated as the registry wants it; yield an answer of success and whose it is."""
        url = path if "://" in path else f"{self._endpoint.url}/v2/{self._reference.repository}/{path}"
        if self._endpoint.is_mirror and method == "GET":
            url += f"?{urlencode({'ns': self._reference.registry})}"
        for has_been_asked in (False, True):
            own = urlsplit(url)[:2] == urlsplit(self._endpoint.url)[:2]  # an upload may go on elsewhere
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
                async with answering as (answer, source):
                    if answer.status == 401 and not has_been_asked:
                        await self._authenticate(answer.headers.get("www-authenticate", ""))
                        continue
                    if answer.status >= 300:
                        text = await limited(answer, _ERROR_BYTES) if method != "HEAD" else b""
                        raise RegistryProblem(f"{method} {url}: {_problem(answer.status, text)}", answer.status)
                    yield answer, source
                    return
            except (OSError, ValueError) as err:  # a place or a token of the registry's may be of no use
                raise RegistryProblem(f"{method} {url}: {one_line(err)}") from err

    def _tls(self, url: str) -> ssl.SSLContext | None:
        """Return the trust in a server that is not checked; None leaves it to the system's authorities."""
        parts = urlsplit(url)
        is_own = parts.netloc == urlsplit(self._endpoint.url).netloc
        return self._unchecked if parts.scheme == "https" and is_own and self._endpoint.is_insecure else None

    def _proxy(self, url: str) -> Proxy | None:
        return proxy_for(url, self._settings.environ)

    async def _authenticate(self, challenge: str) -> None:
        """Find out with what the next request is to come."""
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


def _problem(status: int, text: bytes) -> str:
    """Return what an answer says is wrong, in one line."""
    try:
        errors = json.loads(text)["errors"]
        reported = "; ".join(f"{one['code']}: {one.get('message', '')}" for one in errors[:3])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        reported = text.decode(errors="replace")
    return f"{status} {' '.join(reported.split())[:300]}".rstrip()
