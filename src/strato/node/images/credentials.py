"""Credentials for registries, from a Docker configuration file or a Secret ``kubernetes.io/dockerconfigjson``.

Source: Docker's ``config.json`` and credential helpers; the kubelet's rules for which entry applies to an image.
"""

from __future__ import annotations

import asyncio
import base64
import fnmatch
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strato.errors import StateError, one_line
from strato.node.images.references import DOCKER_HUB, ImageReference

DOCKER_CONFIG_JSON, DOCKER_CONFIG = ".dockerconfigjson", ".dockercfg"
"""Keys of a Secret of type ``kubernetes.io/dockerconfigjson``, and of the older ``kubernetes.io/dockercfg``."""
_MAX_CONFIG_BYTES = 1 << 20
_HELPER_SECONDS = 30.0
_HELPER = re.compile(r"[A-Za-z0-9_.-]+")
_HUB_KEY = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"
"""The user a credential helper names when its secret is an identity token."""


class BadCredentials(StateError):
    """Credentials cannot be read; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A user's credentials for a registry."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """A token that the registry's token service accepts instead of a password."""


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """Credentials by the registry or path that they apply to, and credential helpers."""

    entries: tuple[tuple[str, Credential], ...] = ()
    helpers: Mapping[str, str] = field(default_factory=dict)
    """Registry → helper; the empty name applies to all other registries."""

    def matching(self, reference: ImageReference) -> list[Credential]:
        """Return the credentials for an image, those for the longest path first."""
        found = [(len(key), credential) for key, credential in self.entries if _suits(key, reference)]
        return [credential for _, credential in sorted(found, key=lambda one: -one[0])]


def parse_config(text: bytes | str, where: str, *, is_old: bool = False) -> DockerConfig:
    """Read a Docker configuration.

    Args:
        text: JSON.
        where: Origin of the text, for messages.
        is_old: Whether it has the old format, which consists of the present format's ``auths`` only.

    Raises:
        BadCredentials: The text is no such configuration.
    """
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        auths = found if is_old else found.get("auths") or {}
        helpers = {} if is_old else {_host(_key(k)): str(v) for k, v in (found.get("credHelpers") or {}).items()}
        if not is_old and found.get("credsStore"):
            helpers[""] = str(found["credsStore"])
        entries = tuple((_key(key), credential) for key, body in auths.items() if (credential := _credential(body)))
    except (ValueError, AttributeError, RecursionError) as err:
        raise BadCredentials(f"{where} is no Docker configuration: {one_line(err)}") from err
    return DockerConfig(entries, helpers)


def _credential(body: dict[str, Any]) -> Credential | None:
    user, password = str(body.get("username") or ""), str(body.get("password") or "")
    if body.get("auth"):
        pair = base64.b64decode(str(body["auth"]), validate=False).decode(errors="replace").rstrip("\0")
        user, colon, password = pair.partition(":")
        if not colon:
            raise ValueError("an 'auth' is not user:password in base64")
    token = str(body.get("identitytoken") or "")
    return Credential(user, password, token) if (user and password) or token else None


def _key(text: str) -> str:
    """Return what an entry applies to: a host, or a host and path."""
    host, slash, path = text.removeprefix("https://").removeprefix("http://").partition("/")
    for version in ("v1", "v2"):
        if slash and (path == version or path.startswith(f"{version}/")):
            path = path[len(version) + 1 :]
    return f"{host}/{path.rstrip('/')}" if path.rstrip("/") else host


def _host(key: str) -> str:
    host = key.partition("/")[0]
    return DOCKER_HUB if host in ("index.docker.io", "registry-1.docker.io") else host


def _suits(key: str, reference: ImageReference) -> bool:
    """Whether an entry applies to an image; its host may have ``*`` for a DNS label or a part of one."""
    pattern, found = _host(key), reference.registry
    wanted_host, _, wanted_port = pattern.partition(":")
    host, _, port = found.partition(":")
    if wanted_port != port or wanted_host.count(".") != host.count("."):
        return False
    pairs = zip(wanted_host.split("."), host.split("."), strict=True)
    if not all(fnmatch.fnmatchcase(name, label) for label, name in pairs):
        return False
    path = key.partition("/")[2]
    return not path or f"{reference.repository}/".startswith(f"{path}/")


async def docker_credentials(reference: ImageReference, environ: Mapping[str, str]) -> list[Credential]:
    """Return the credentials for an image in this user's Docker configuration: from helpers first, then from the file.

    Raises:
        BadCredentials: The configuration cannot be read, or a helper fails.
    """
    folder = environ.get("DOCKER_CONFIG") or os.path.join(environ.get("HOME") or "/nonexistent", ".docker")
    path = Path(folder) / "config.json"
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return []
    except OSError as err:
        raise BadCredentials(f"{path} cannot be read: {one_line(err)}") from err
    config = parse_config(text, str(path))
    helper = config.helpers.get(reference.registry, config.helpers.get("", ""))
    asked = await _ask(helper, _HUB_KEY if reference.registry == DOCKER_HUB else reference.registry) if helper else None
    return [*([asked] if asked else []), *config.matching(reference)]


async def _ask(helper: str, registry: str) -> Credential | None:
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        raise BadCredentials(f"{program!r} is no name of a credential helper")
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as err:
        raise BadCredentials(f"the credential helper {program} cannot be started: {err.strerror}") from err
    try:
        async with asyncio.timeout(_HELPER_SECONDS):
            output, _ = await process.communicate(registry.encode())
    except TimeoutError:
        raise BadCredentials(f"the credential helper {program} did not end within {_HELPER_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        if b"not found" in output:  # the helper has no credentials for this registry
            return None
        raise BadCredentials(f"the credential helper {program} ended with status {process.returncode} for {registry}")
    try:
        found = json.loads(output)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, TypeError, KeyError) as err:
        raise BadCredentials(f"the credential helper {program} printed no credentials for {registry}") from err
    return Credential(identity_token=secret) if user == _TOKEN_USER else Credential(user, secret)
