"""Rules of a ``clientConfig``, the address of an admission or conversion webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from strato.api import names
from strato.api.status import invalid_value, required
from strato.errors import Cause

_FORM = "desired format: https://host[/path]"


def client_problems(config: Mapping[str, Any], at: str) -> Iterator[Cause]:
    """Yield the problems of a ``clientConfig``."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(at, "exactly one of url or service is required")
    elif service is not None:
        yield from _service_problems(service, f"{at}.service")
    else:
        for problem in _url_problems(str(url)):
            yield invalid_value(f"{at}.url", url, problem)


def _service_problems(service: Mapping[str, Any], at: str) -> Iterator[Cause]:
    for member in ("name", "namespace"):
        if not service.get(member):
            yield required(f"{at}.{member}")
    port = service.get("port")
    problems = names.check_port_number(port) if port is not None else ()
    if problems:
        yield invalid_value(f"{at}.port", port, f"port is not valid: {', '.join(problems)}")
    path = service.get("path") or "/"
    for problem in _path_problems(path):
        yield invalid_value(f"{at}.path", path, problem)


def _path_problems(path: str) -> Iterator[str]:
    """Yield the problems of the URL path at a service; ``/`` is valid."""
    if path == "/":
        return
    if not path.startswith("/"):
        yield "must start with a '/'"
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield f"segment[{index}] may not be empty"
        else:
            yield from (f"segment[{index}]: {problem}" for problem in names.check_subdomain(segment))


def _url_problems(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield f"url must be a valid URL: {error}; {_FORM}"
        return
    if parts.scheme != "https":
        yield f"'https' is the only allowed URL scheme; {_FORM}"
    if not parts.hostname:
        yield f"host must be specified; {_FORM}"
    if parts.username:
        yield "user information is not permitted in the URL"
    if parts.fragment:
        yield "fragments are not permitted in the URL"
    if parts.query:
        yield "query parameters are not permitted in the URL"
