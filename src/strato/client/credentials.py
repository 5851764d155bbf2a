"""The credential for each request: tokens whose files are rewritten, credential plugins whose answers expire."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from strato.client.config import Auth, Certificate, ClusterConfig, ExecPlugin, Token, TokenFile
from strato.clock import Clock, parse_time
from strato.decoding import UNDECODABLE
from strato.errors import Unauthorized

_REREAD_SECONDS = 60.0
"""How long a token file's content is cached; the kubelet rewrites the file well before the old token expires."""

_EXPIRY_MARGIN_SECONDS = 10.0
_PLUGIN_SECONDS = 60.0
"""How long a credential plugin may run unless it prompts the user; all requests wait for it."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential to send with a request."""

    token: str = ""
    certificate: Certificate | None = None


class Credentials(Protocol):
    """Gives the credential that is valid now."""

    async def current(self) -> Credential:
        """Return the credential for a request.

        Raises:
            Unauthorized: There is none; the message says why.
        """

    def invalidate(self) -> bool:
        """Drop the cached credential, which the server has just refused; return whether `current` may give another."""


def credentials_of(config: ClusterConfig, clock: Clock) -> Credentials:
    """Return the source that a configuration describes."""
    auth: Auth = config.auth
    if isinstance(auth, TokenFile):
        return _FromFile(auth, config.certificate, clock)
    if isinstance(auth, ExecPlugin):
        return _FromPlugin(auth, config, clock)
    token = auth.token if isinstance(auth, Token) else ""
    return _Fixed(Credential(token, config.certificate))


class _Fixed:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def invalidate(self) -> bool:
        return False


class _FromFile:
    def __init__(self, auth: TokenFile, certificate: Certificate | None, clock: Clock) -> None:
        self._path = auth.path
        self._certificate = certificate
        self._clock = clock
        self._credential: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        now = self._clock.monotonic()
        if self._credential is None or now - self._read_at >= _REREAD_SECONDS:
            try:
                token = self._path.read_text().strip()
            except OSError as error:
                if self._credential is None:
                    raise Unauthorized(f"the token file {self._path} cannot be read: {error.strerror}") from error
                token = self._credential.token  # the file is being replaced; the old token may still be valid
            self._credential = Credential(token, self._certificate)
            self._read_at = now
        return self._credential

    def invalidate(self) -> bool:
        was_read = self._read_at > 0.0 or self._credential is not None
        self._read_at = float("-inf")
        return was_read


class _FromPlugin:
    def __init__(self, plugin: ExecPlugin, config: ClusterConfig, clock: Clock) -> None:
        self._plugin = plugin
        self._config = config
        self._clock = clock
        self._credential: Credential | None = None
        self._expires_at: float | None = None
        self._running = asyncio.Lock()  # concurrent requests share one call of the plugin

    async def current(self) -> Credential:
        async with self._running:
            if self._credential is None or self._has_expired():
                self._take(await self._run())
            assert self._credential is not None
            return self._credential

    def invalidate(self) -> bool:
        self._credential = None
        return True

    def _has_expired(self) -> bool:
        return self._expires_at is not None and self._clock.now() >= self._expires_at - _EXPIRY_MARGIN_SECONDS

    async def _run(self) -> bytes:
        plugin = self._plugin
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                stdin=None if self._is_interactive() else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": self._exec_info()},
            )
        except OSError as error:
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            raise Unauthorized(
                f"the credential plugin {plugin.command!r} cannot be started: {error.strerror}{hint}"
            ) from error
        try:
            async with asyncio.timeout(None if self._is_interactive() else _PLUGIN_SECONDS):
                output, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            raise Unauthorized(
                f"the credential plugin {plugin.command!r} did not end within {_PLUGIN_SECONDS:g} s"
            ) from None
        except asyncio.CancelledError:
            if process.returncode is None:
                process.kill()
            raise
        if process.returncode != 0:
            error_text = errors.decode("utf-8", "replace").strip()[-500:]
            raise Unauthorized(
                f"the credential plugin {plugin.command!r} ended with status {process.returncode}: "
                + (error_text or "no message")
            )
        return output

    def _take(self, output: bytes) -> None:
        name = self._plugin.command
        try:
            answer: Any = msgspec.json.decode(output)
            status = answer.get("status") or {}
            version, kind = answer.get("apiVersion"), answer.get("kind")
        except (*UNDECODABLE, AttributeError) as error:
            raise Unauthorized(f"the credential plugin {name!r} did not print an ExecCredential") from error
        if kind != "ExecCredential" or version != self._plugin.api_version:
            raise Unauthorized(
                f"the credential plugin {name!r} printed {kind} {version}, "
                f"wanted ExecCredential {self._plugin.api_version}"
            )
        token = status.get("token") or ""
        chain, key = status.get("clientCertificateData") or "", status.get("clientKeyData") or ""
        if not token and not (chain and key):
            raise Unauthorized(
                f"the credential plugin {name!r} returned neither a token nor a certificate with its key"
            )
        expires = status.get("expirationTimestamp")
        try:
            self._expires_at = parse_time(expires) if expires else None
        except (ValueError, TypeError) as error:
            raise Unauthorized(
                f"the credential plugin {name!r} returned a bad expirationTimestamp {expires!r}"
            ) from error
        certificate = Certificate(chain.encode(), key.encode()) if chain and key else self._config.certificate
        self._credential = Credential(token, certificate)

    def _exec_info(self) -> str:
        spec: dict[str, Any] = {"interactive": self._is_interactive()}
        if self._plugin.provide_cluster_info:
            config = self._config
            cluster: dict[str, Any] = {"server": config.server}
            if config.ca is not None:
                cluster["certificate-authority-data"] = base64.b64encode(config.ca).decode()
            if config.tls_server_name:
                cluster["tls-server-name"] = config.tls_server_name
            if config.insecure_skip_tls_verify:
                cluster["insecure-skip-tls-verify"] = True
            if self._plugin.config is not None:
                cluster["config"] = self._plugin.config
            spec["cluster"] = cluster
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _is_interactive(self) -> bool:
        return self._plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
