"""Requests and limits of a pod, as given on a command line, made consistent; problems are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from strato.api.quantity import InvalidQuantity, parse

DEFAULT = {"cpu": "1000m", "memory": "100Mi"}
"""Requests and limits of a pod when no option names any."""
GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests and limits of a pod."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]


def agree(requests: str | None, limits: str | None, gpus: int, problem: Callable[[str, str], None]) -> Resources:
    """Return requests and limits; whichever is not given is copied from the other one.

    Args:
        requests: ``--requests``; None when not given; empty requests nothing.
        limits: ``--limits``; None when not given; empty sets none.
        gpus: ``--gpus``: GPUs per pod, added to both.
        problem: Called with flag and text for everything that is wrong.
    """
    asked = _read(requests, "--requests", problem)
    most = _read(limits, "--limits", problem)
    if requests is None:
        asked = dict(most) if limits else dict(DEFAULT)
    if limits is None:
        most = dict(asked)
    for name in {*asked, *most}:
        if _is_extended(name):  # extended resources cannot be overcommitted: request and limit must be equal
            asked.setdefault(name, most.get(name, ""))
            most.setdefault(name, asked[name])
    if gpus:
        for amounts, flag in ((asked, "--requests"), (most, "--limits")):
            if amounts.get(GPU, str(gpus)) != str(gpus):
                problem("--gpus", f"{gpus}, but {flag} has {GPU}={amounts[GPU]}")
            amounts[GPU] = str(gpus)
    for name, text in _contradictions(asked, most):
        problem(name, text)
    return Resources(asked, most)


def _read(text: str | None, flag: str, problem: Callable[[str, str], None]) -> dict[str, str]:
    """Parse ``NAME=QUANTITY`` pairs; report wrong ones to ``problem`` and leave them out."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else []:
        name, _, quantity = (word.strip() for word in part.partition("="))
        try:
            amount = parse(quantity) if name and quantity else None
        except InvalidQuantity:
            amount = None
        if amount is None or amount.nanos < 0:
            problem(flag, f"{part.strip()!r} is not name=quantity; write for example cpu=500m,memory=2Gi")
        elif name in found:
            problem(flag, f"{name} is given twice")
        else:
            found[name] = quantity
    return found


def _contradictions(requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, quantity in requests.items():
        most = limits.get(name)
        if most is None:
            continue
        if _is_extended(name) and parse(quantity) != parse(most):
            yield "--limits", f"{name}={most} is not the request, {quantity}: they must be equal for {name}"
        elif parse(quantity) > parse(most):
            yield "--limits", f"{name}={most} is less than the request, {quantity}; raise it or leave --limits out"


def _is_extended(name: str) -> bool:
    return "/" in name and not name.startswith(("kubernetes.io/", "requests."))
