"""Rules of what a kubelet does to a container: probes, and the hooks of its lifecycle. On the hot path of every pod."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from strato.api import names
from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value, not_supported, required
from strato.errors import Cause

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_TIMES = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = re.compile("[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def validate_handlers(container: Json, field: str, grace_seconds: int, causes: list[Cause]) -> None:
    """Add the problems of the hooks and probes of a container that runs as long as its pod, after defaulting.

    Args:
        container: A main container or a sidecar.
        field: Its path.
        grace_seconds: The pod's time to end, which a hook that sleeps must fit into.
        causes: Gets the problems.
    """
    get = container.get
    lifecycle = get("lifecycle")
    if lifecycle:
        for when in ("postStart", "preStop"):
            if lifecycle.get(when) is not None:
                causes += _handler_causes(lifecycle[when], f"{field}.lifecycle.{when}", grace_seconds)
    for member in _PROBES:
        probe = get(member)
        if probe is not None:
            causes += _probe_causes(probe, f"{field}.{member}", member)


def forbid_handlers(container: Json, field: str, causes: list[Cause]) -> None:
    """Add a problem for each hook and probe of an init container that ends before the next one begins."""
    for member in ("lifecycle", *_PROBES):
        if container.get(member) is not None:
            text = "may not be set for init containers without restartPolicy=Always"
            causes.append(forbidden_field(f"{field}.{member}", text))


def _probe_causes(probe: Json, field: str, member: str) -> Iterator[Cause]:
    yield from _handler_causes(probe, field, 0)
    for name in _TIMES:
        value = probe.get(name) or 0
        if value < 0:
            yield invalid_value(f"{field}.{name}", value, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid_value(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if member == "readinessProbe":
        if grace is not None:
            text = "must not be set for readinessProbes"
            yield invalid_value(f"{field}.terminationGracePeriodSeconds", grace, text)
    elif (probe.get("successThreshold") or 1) != 1:
        yield invalid_value(f"{field}.successThreshold", probe["successThreshold"], "must be 1")


def _handler_causes(handler: Json, field: str, grace_seconds: int) -> Iterator[Cause]:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        yield required(field, "must specify a handler type")
        return
    first, action, place = given[0], handler[given[0]], f"{field}.{given[0]}"
    if first == "exec":
        if not action.get("command"):
            yield required(f"{place}.command")
    elif first == "sleep":
        seconds = action.get("seconds") or 0
        if not 0 <= seconds <= grace_seconds:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
            yield invalid_value(place, seconds, text)
    else:
        yield from _port_causes(action.get("port") if action.get("port") is not None else 0, f"{place}.port")
        if first == "httpGet":
            yield from _request_causes(action, place)
    for name in given[1:]:
        yield forbidden_field(f"{field}.{name}", "may not specify more than 1 handler type")


def _port_causes(port: Any, field: str) -> Iterator[Cause]:
    check = names.check_port_name if isinstance(port, str) else names.check_port_number
    for text in check(port):
        yield invalid_value(field, port, text)


def _request_causes(request: Json, field: str) -> Iterator[Cause]:
    if request.get("scheme") not in _SCHEMES:
        yield not_supported(f"{field}.scheme", request.get("scheme"), _SCHEMES)
    for header in request.get("httpHeaders") or ():
        name = header.get("name") or ""
        if not _HEADER.fullmatch(name):
            yield invalid_value(f"{field}.httpHeaders", name, _HEADER_TEXT)
