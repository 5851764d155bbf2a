"""Saved states: the objects and all else that decisions depend on, in one file.

A saved state is a Kubernetes ``List`` of the objects with an additional field ``strato``: configuration, seed, number
of cycles and the instant. A dry run on it gives the same decisions, byte for byte, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from strato import __version__
from strato.clock import parse_time
from strato.errors import Problem
from strato.scheduler.cache.shards import MODES, NONE
from strato.scheduler.dryrun.manifests import Json, Located, Manifests, describe

START = 1_700_000_000.0
"""Seconds since the epoch at the first cycle on objects without dates."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """Which part of the nodes is the scheduler's, by the NodeShards among the objects.

    Attributes:
        mode: One of `strato.scheduler.cache.shards.MODES`.
        name: Name of the own NodeShard.
    """

    mode: str = NONE
    name: str = "volcano"


UNSHARED = Sharding()


@dataclass(frozen=True, slots=True)
class Header:
    """What decisions depend on besides the objects.

    Attributes:
        config: Text of the configuration file; empty means the built-in one.
        seed: Seed of chance.
        cycles: How many cycles to run.
        now: Seconds since the epoch at the first cycle.
        sharding: Which part of the nodes is the scheduler's.
    """

    config: str = ""
    seed: int = 0
    cycles: int = 1
    now: float = START
    sharding: Sharding = UNSHARED


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The state that manifests describe.

    Attributes:
        objects: The objects, each with its place.
        header: The header of the saved state among them, if there is one.
        problems: What could not be read; `strato.scheduler.dryrun.run.load` lists these with its own problems.
    """

    objects: Sequence[Located]
    header: Header | None = None
    problems: Sequence[Problem] = ()


def state_of(found: Manifests) -> ManifestState:
    """Return the state that manifests describe."""
    problems = list(found.problems)
    if len(found.headers) > 1:
        places = ", ".join(where for where, _ in found.headers)
        problems.append(Problem("", f"several saved states were given, which cannot be joined: {places}"))
    header = _header(*found.headers[0], problems) if len(found.headers) == 1 else None
    return ManifestState(found.objects, header, problems)


def _header(where: str, fields: Json, problems: list[Problem]) -> Header | None:
    wanted: dict[str, Any] = {"config": str, "seed": int, "cycles": int, "now": (int, float)}
    values = {}
    for key, types in wanted.items():
        value = fields.get(key)
        if isinstance(value, bool) or not isinstance(value, types) or (key == "now" and not math.isfinite(value)):
            problems.append(Problem(f"{where}: strato.{key}", f"is not what was saved but {describe(value)}"))
        else:
            values[key] = value
    sharding = _sharding(where, fields.get("sharding"), problems)
    return Header(**values, sharding=sharding) if len(values) == len(wanted) else None


def _sharding(where: str, given: Any, problems: list[Problem]) -> Sharding:
    if given is None:
        return UNSHARED
    known = isinstance(given, dict) and given.keys() == {"mode", "name"}
    if not known or given["mode"] not in MODES or not isinstance(given["name"], str):
        problems.append(Problem(f"{where}: strato.sharding", f"is not what was saved but {describe(given)}"))
        return UNSHARED
    return Sharding(given["mode"], given["name"])


def render(objects: Iterable[Located], header: Header) -> bytes:
    """Return a state as a file's bytes."""
    body = {
        "apiVersion": "v1",
        "kind": "List",
        "strato": {
            "version": __version__,
            "config": header.config,
            "seed": header.seed,
            "cycles": header.cycles,
            "now": header.now,
            **({} if header.sharding == UNSHARED else {"sharding": asdict(header.sharding)}),
        },
        "items": [obj for _, obj in objects],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n"


def latest_date(objects: Iterable[Located]) -> float:
    """Return the creation time of the newest object, so that no object is from the future; `START` without dates."""
    latest = 0.0
    for _, obj in objects:
        meta = obj.get("metadata")
        for key in ("creationTimestamp", "deletionTimestamp"):
            text = meta.get(key) if isinstance(meta, dict) else None
            if isinstance(text, str):
                with suppress(ValueError, OverflowError):
                    latest = max(latest, parse_time(text))
    return latest or START
