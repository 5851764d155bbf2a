"""LimitRanges: default requests and limits of containers, then bounds of containers, whole pods and claims.

Source: the admission plug-in LimitRanger of Kubernetes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strato.admission.request import AdmissionReader, AdmissionRequest, Json
from strato.api import catalog
from strato.api.quantity import InvalidQuantity, Quantity, parse
from strato.api.status import forbidden

Amounts = dict[str, Quantity]


def default_pod(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Default the resources of a pod's containers, in place."""
    for item in _items(request, reader):
        if item.get("type") == "Container":
            init, main = _containers(request)
            _default(item, (*init, *main))


def check_pod(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check a pod against the namespace's bounds.

    Raises:
        Forbidden: The pod exceeds some; all problems at once.
    """
    items = _items(request, reader)
    if items:
        init, main = _containers(request)
        _refuse(request, (text for item in items for text in _pod_problems(item, init, main)))


def _containers(request: AdmissionRequest) -> tuple[list[Json], list[Json]]:
    assert request.object is not None
    spec = request.object["spec"]
    return list(spec.get("initContainers") or ()), list(spec.get("containers") or ())


def limit_claim(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check a claim's request against the namespace's bounds.

    Raises:
        Forbidden: The request exceeds some; all problems at once.
    """
    items = [item for item in _items(request, reader) if item.get("type") == "PersistentVolumeClaim"]
    if not items:
        return
    assert request.object is not None
    requests = _amounts(request.object["spec"], "requests")
    problems: list[str] = []
    for item in items:
        problems += _too_little("PersistentVolumeClaim", item, requests, {})
        for name, ceiling, text in _bounds(item, "max"):
            start = f"maximum {name} usage per PersistentVolumeClaim is {text}"
            if name not in requests:
                problems.append(f"{start}.  No request is specified")
            elif requests[name] > ceiling:
                problems.append(f"{start}, but request is {requests[name]}")
    _refuse(request, problems)


def _items(request: AdmissionRequest, reader: AdmissionReader) -> list[Json]:
    if request.old_object is not None and request.old_object["metadata"].get("deletionTimestamp"):
        return []  # updates of objects that are being deleted are not checked
    ranges = reader.list(catalog.LIMITRANGE, request.namespace)
    return [item for limit_range in ranges for item in (limit_range.get("spec") or {}).get("limits") or ()]


def _refuse(request: AdmissionRequest, problems: Iterable[str]) -> None:
    found = list(dict.fromkeys(problems))
    if found:
        text = found[0] if len(found) == 1 else "[" + ", ".join(found) + "]"
        raise forbidden(request.kind, request.name, text)


def _default(item: Json, containers: Iterable[Json]) -> None:
    for container in containers:
        resources = container.setdefault("resources", {})
        for section, source in (("limits", "default"), ("requests", "defaultRequest")):
            for name, amount in (item.get(source) or {}).items():
                resources.setdefault(section, {}).setdefault(name, amount)


def _pod_problems(item: Json, init: list[Json], main: list[Json]) -> Iterator[str]:
    match item.get("type"):
        case "Container":
            for container in (*init, *main):
                yield from _problems("Container", item, _amounts(container, "requests"), _amounts(container, "limits"))
        case "Pod":
            yield from _problems("Pod", item, _whole(init, main, "requests"), _whole(init, main, "limits"))


def _whole(init: list[Json], main: list[Json], section: str) -> Amounts:
    """Return the sum over the main containers, or the largest init container's amount where that is more."""
    whole: Amounts = {}
    for container in main:
        for name, amount in _amounts(container, section).items():
            whole[name] = whole[name] + amount if name in whole else amount
    for container in init:
        for name, amount in _amounts(container, section).items():
            whole[name] = max(whole[name], amount) if name in whole else amount
    return whole


def _amounts(owner: Json, section: str) -> Amounts:
    given: Mapping[str, Any] = (owner.get("resources") or {}).get(section) or {}
    amounts: Amounts = {}
    for name, amount in given.items():
        with contextlib.suppress(InvalidQuantity):  # validation refuses it later
            amounts[name] = parse(amount)
    return amounts


def _bounds(item: Json, member: str) -> Iterator[tuple[str, Quantity, str]]:
    for name, amount in (item.get(member) or {}).items():
        yield name, parse(amount), str(amount)


def _problems(what: str, item: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _too_little(what, item, requests, limits)
    for name, ceiling, text in _bounds(item, "max"):
        start = f"maximum {name} usage per {what} is {text}"
        if name not in limits:
            yield f"{start}.  No limit is specified"
        elif limits[name] > ceiling:
            yield f"{start}, but limit is {limits[name]}"
        elif name in requests and requests[name] > ceiling:
            yield f"{start}, but request is {requests[name]}"
    for name, most, text in _bounds(item, "maxLimitRequestRatio"):
        start = f"{name} max limit to request ratio per {what} is {text}"
        if not requests.get(name):
            yield f"{start}, but no request is specified or request is 0"
        elif not limits.get(name):
            yield f"{start}, but no limit is specified or limit is 0"
        elif limits[name].nanos * 10**9 > most.nanos * requests[name].nanos:
            yield f"{start}, but provided ratio is {limits[name].nanos / requests[name].nanos:f}"


def _too_little(what: str, item: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, floor, text in _bounds(item, "min"):
        start = f"minimum {name} usage per {what} is {text}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif requests[name] < floor:
            yield f"{start}, but request is {requests[name]}"
        elif name in limits and limits[name] < floor:
            yield f"{start}, but limit is {limits[name]}"
