"""Failures of hollow nodes. `NodeFailures` decides which node fails how and for how long; `HollowNodes` acts on it.

A failure comes from the node's annotation or label ``strato.dev/failure``, from the mean times of its shape, or from a
call of `NodeFailures.fail`. What follows in the cluster (NotReady, taints, evictions) is up to the controllers, as with
kubelets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from strato.api.core import Node
from strato.clock import Clock
from strato.errors import UsageError, nearest
from strato.lru import memoised
from strato.node.hollow.distributions import Draws
from strato.node.hollow.offers import HollowOffer
from strato.node.shapes import days_seconds
from strato.node.timers import Timers

FAILURE: Final = "strato.dev/failure"
"""Annotation or label of a node: its failure, in the syntax of `parse_failure`."""
DEAD, UNREACHABLE, NO_LEASE, SLOW, FLAPPING = "dead", "unreachable", "no-lease", "slow", "flapping"
KINDS: Final = (DEAD, UNREACHABLE, NO_LEASE, SLOW, FLAPPING)
_ANNOTATION, _SHAPE = "annotation", "shape"
_LONGEST: Final = 256


class BadFailure(UsageError, ValueError):
    """A text is not a valid failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure of a node."""

    kind: str
    """``dead``: no power; its containers are lost, and it boots afterwards. ``unreachable``: no network; its containers
    run on. ``no-lease``: its lease expires, everything else goes on. ``slow``: starts and runs take longer.
    ``flapping``: unreachable and reachable in turns."""
    for_seconds: float = math.inf
    """Duration; infinite: until it is revoked."""
    factor: float = 2.0
    """For ``slow``: by which factor everything takes longer. Range [1, 1000]."""
    up_seconds: float = 300.0
    """For ``flapping``: how long the node is reachable each time."""
    down_seconds: float = 60.0
    """For ``flapping``: how long the node is unreachable each time."""


@memoised(1 << 16, _LONGEST, entry_bytes=1000)
def parse_failure(text: str) -> Failure:
    """Read a failure: ``dead``, ``dead for=10m``, ``slow factor=3``, ``flapping up=5m down=1m for=1h``.

    Raises:
        BadFailure: The text is invalid; the message says why.
    """
    kind, *rest = text.split() or [""]
    if kind not in KINDS or len(text) > _LONGEST:
        raise BadFailure(f"{kind[:40]!r} is no failure of a node{nearest(kind[:40], KINDS)}")
    taken = {"for", *({"factor"} if kind == SLOW else ()), *({"up", "down"} if kind == FLAPPING else ())}
    given: dict[str, float] = {}
    for item in rest:
        name, _, value = item.partition("=")
        if name not in taken or name in given:
            raise BadFailure(
                f"{text!r}: {item!r} is not understood; {kind} takes {', '.join(f'{one}=' for one in taken)}"
            )
        number = _factor(value) if name == "factor" else days_seconds(value)
        if not number > 0:
            wanted = "a factor from 1 to 1000" if name == "factor" else "a time above zero such as 10m"
            raise BadFailure(f"{text!r}: {name} wants {wanted}")
        given[name] = number
    return Failure(
        kind=kind,
        for_seconds=given.get("for", math.inf),
        factor=given.get("factor", 2.0),
        up_seconds=given.get("up", 300.0),
        down_seconds=given.get("down", 60.0),
    )


def _factor(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if 1 <= number <= 1000 else math.nan


class Machines(Protocol):
    """The operations on nodes by which failures take effect."""

    def stop_node(self, name: str) -> None:
        """Stop all writes of a node."""

    def start_node(self, name: str, *, is_rebooted: bool = False) -> None:
        """Start a stopped node again; if it was rebooted, its containers are lost."""

    def set_slowness(self, name: str, factor: float) -> None:
        """Set the factor by which everything that begins on a node takes longer; 1 is normal."""

    def hold_lease(self, name: str, *, is_held: bool) -> None:
        """Stop renewing a node's lease, or renew it again."""


@dataclass(frozen=True, slots=True)
class _State:
    """The joint effect of a node's failures."""

    is_down: bool = False
    is_dead: bool = False
    is_leaseless: bool = False
    factor: float = 1.0


class NodeFailures:
    """Holds the failures of each node and applies their effects through `Machines`.

    Args:
        timers: Timers, which the nodes serve.
        offers: Offers of the nodes by name, which have the mean times.
        seed: Seed of the draws of when nodes fail by their mean times.
        on_over: Called with a node whose annotated failure has ended.
        on_unreadable: Called with a node and why its annotation is invalid.
    """

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        machines: Machines,
        *,
        offers: Mapping[str, HollowOffer],
        seed: int,
        on_over: Callable[[str], None],
        on_unreadable: Callable[[Node, str], None],
    ) -> None:
        self._clock, self._timers, self._machines = clock, timers, machines
        self._offers, self._seed = offers, seed
        self._on_over, self._on_unreadable = on_over, on_unreadable
        self._causes: dict[str, dict[str, Failure]] = {}
        """Node → cause → failure."""
        self._down: set[tuple[str, str]] = set()
        """(node, cause) of flapping failures that are in their unreachable part now."""
        self._states: dict[str, _State] = {}
        self._texts: dict[str, str] = {}
        """Node → text of its annotation or label that is in effect."""
        self._epochs: dict[tuple[str, str], int] = {}
        """(node, cause) → number of its present failure; timers with an earlier number are ignored."""
        self._failures: dict[str, int] = {}
        """How often each node has failed by its mean time."""

    def begin(self) -> None:
        """Draw the first failures of nodes by their mean times."""
        for name, offer in self._offers.items():
            if math.isfinite(offer.mtbf_seconds):
                self._draw(name, offer)

    def fail(self, names: Iterable[str], failure: Failure, cause: str = "command") -> None:
        """Make nodes fail; replaces a failure with the same cause.

        Raises:
            KeyError: There is no such node.
        """
        for name in names:
            if name not in self._offers:
                raise KeyError(name)
            self._set(name, cause, failure)

    def recover(self, names: Iterable[str], cause: str = "command") -> None:
        """End failures of a cause."""
        for name in names:
            self._set(name, cause, None)

    def observe(self, node: Node) -> None:
        """Apply the failure in a node's annotation, or else in its label."""
        metadata = node.metadata
        name, text = metadata.name, metadata.annotation(FAILURE) or (metadata.labels or {}).get(FAILURE, "")
        if self._texts.get(name, "") == text or name not in self._offers:
            return
        if text:
            self._texts[name] = text
        else:
            del self._texts[name]
        try:
            self._set(name, _ANNOTATION, parse_failure(text) if text else None)
        except BadFailure as error:
            self._set(name, _ANNOTATION, None)
            self._on_unreadable(node, str(error))

    def _set(self, name: str, cause: str, failure: Failure | None) -> None:
        key = name, cause
        self._epochs[key] = epoch = self._epochs.get(key, 0) + 1
        self._down.discard(key)
        causes = self._causes.setdefault(name, {})
        if failure is None:
            causes.pop(cause, None)
        else:
            causes[cause] = failure
            if math.isfinite(failure.for_seconds):
                self._timers.after(failure.for_seconds, self._end, key, epoch)
            if failure.kind == FLAPPING:
                self._timers.after(0.0, self._flap, key, epoch)
        self._apply(name)

    def _end(self, key: tuple[str, str], epoch: int) -> None:
        if self._epochs[key] != epoch:
            return
        name, cause = key
        self._set(name, cause, None)
        if cause == _ANNOTATION:
            self._on_over(name)
        elif cause == _SHAPE:
            self._draw(name, self._offers[name])

    def _flap(self, key: tuple[str, str], epoch: int) -> None:
        if self._epochs[key] != epoch:
            return
        name, cause = key
        failure = self._causes[name][cause]
        self._down ^= {key}
        seconds = failure.down_seconds if key in self._down else failure.up_seconds
        self._timers.after(seconds, self._flap, key, epoch)
        self._apply(name)

    def _draw(self, name: str, offer: HollowOffer) -> None:
        """Draw when a node fails next, and for how long."""
        self._failures[name] = number = self._failures.get(name, 0) + 1
        draws = Draws(self._seed, name, number)
        up, down = (-mean * math.log1p(-draws.random()) for mean in (offer.mtbf_seconds, offer.mttr_seconds))
        failure = Failure(kind=DEAD, for_seconds=max(down, 1.0))
        self._timers.after(up, partial(self._set, name, _SHAPE, failure))

    def _apply(self, name: str) -> None:
        before, now = self._states.get(name, _State()), self._state(name)
        if before == now:
            return
        self._states[name] = now
        machines = self._machines
        if now.factor != before.factor:
            machines.set_slowness(name, now.factor)
        if now.is_leaseless is not before.is_leaseless:
            machines.hold_lease(name, is_held=now.is_leaseless)
        if now.is_down and not before.is_down:
            machines.stop_node(name)
        elif before.is_down and not now.is_down:
            machines.start_node(name, is_rebooted=before.is_dead)

    def _state(self, name: str) -> _State:
        causes = self._causes.get(name, {})
        kinds = {failure.kind for failure in causes.values()}
        is_flapped = any((name, cause) in self._down for cause in causes)
        is_down = bool(kinds & {DEAD, UNREACHABLE}) or is_flapped
        was_dead = is_down and self._states.get(name, _State()).is_dead
        return _State(
            is_down=is_down,
            is_dead=DEAD in kinds or was_dead,
            is_leaseless=NO_LEASE in kinds,
            factor=max((failure.factor for failure in causes.values() if failure.kind == SLOW), default=1.0),
        )
