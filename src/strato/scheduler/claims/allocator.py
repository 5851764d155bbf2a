"""Finds devices for the claims of one pod on one node: a depth-first search over requests, as Kubernetes specifies it.

Pure: it reads only `Devices` and its arguments. Requests are filled in order, each with the first devices that match,
are free and satisfy the constraints; when a later request cannot be filled, the search backtracks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from strato.api import cel
from strato.api.resource import DeviceRequest, DeviceSelector, DeviceToleration, ResourceClaim
from strato.scheduler.claims.devices import DeviceId, Devices, Offered, attribute_of

MAX_RESULTS = 32
"""Devices one claim may be given (Kubernetes' AllocationResultsMaxSize)."""
_MAX_STEPS = 20_000
"""Devices tried before a search is given up; the node then counts as not fitting."""

Allocation = Mapping[str, Any]
"""``status.allocation`` of a claim."""


class _Wanted(NamedTuple):
    """One way to fill a request."""

    name: str
    class_name: str
    selectors: Sequence[DeviceSelector]
    tolerations: Sequence[DeviceToleration]
    everything: bool
    number: int
    admin: bool


class _Picked(NamedTuple):
    request: str
    offer: Offered
    admin: bool


def allocate(
    devices: Devices, claims: Sequence[ResourceClaim], node: str, row: int, used: set[DeviceId]
) -> list[Allocation] | None:
    """Return an allocation for each claim on a node, None when not all can be satisfied.

    Args:
        devices: All devices.
        claims: Claims without an allocation.
        node: The node's name.
        row: Its row, for devices that several nodes reach.
        used: Devices that are in use already.
    """
    search = _Search(devices, node, row, used)
    picks = search.claims(claims, 0)
    if picks is None:
        return None
    return [_result(devices, claim, picked, node) for claim, picked in zip(claims, picks, strict=True)]


class _Search:
    def __init__(self, devices: Devices, node: str, row: int, used: set[DeviceId]) -> None:
        self._devices = devices
        self._node = node
        self._row = row
        self._used = used
        self._mine: set[DeviceId] = set()
        self._steps = 0

    def claims(self, claims: Sequence[ResourceClaim], at: int) -> list[list[_Picked]] | None:
        """Fill the claims from index ``at`` on; None when they cannot all be filled."""
        if at == len(claims):
            return []
        for picked in self._fill(claims[at], 0, []):
            rest = self.claims(claims, at + 1)
            if rest is not None:
                return [picked[:], *rest]
        return None

    def _fill(self, claim: ResourceClaim, at: int, picked: list[_Picked]) -> Iterator[list[_Picked]]:
        """Yield every way to fill a claim's requests from index ``at`` on.

        Always yields ``picked`` itself, which is valid until the generator is resumed.
        """
        requests = claim.spec.devices.requests
        if at == len(requests):
            yield picked
            return
        for wanted in _ways(requests[at]):
            offers = self._offers(wanted)
            free = offers if wanted.admin else [offer for offer in offers if not self._taken(offer)]
            count = max(len(offers), 1) if wanted.everything else wanted.number
            if len(free) >= count:
                yield from self._take(claim, at, picked, wanted, free, 0, count)

    def _take(
        self,
        claim: ResourceClaim,
        at: int,
        picked: list[_Picked],
        wanted: _Wanted,
        offers: Sequence[Offered],
        start: int,
        left: int,
    ) -> Iterator[list[_Picked]]:
        """Yield every way to take ``left`` of the offers from index ``start`` on and then fill the later requests."""
        if left == 0:
            yield from self._fill(claim, at + 1, picked)
            return
        if len(picked) + left > MAX_RESULTS:
            return
        for i in range(start, len(offers) - left + 1):
            offer = offers[i]
            self._steps += 1
            if self._steps > _MAX_STEPS:
                return
            if not wanted.admin and not self._counters_allow(offer):
                continue
            if not _keeps_constraints(claim, wanted.name, offer, picked):
                continue
            picked.append(_Picked(wanted.name, offer, wanted.admin))
            if not wanted.admin:
                self._mine.add(offer.id)
            yield from self._take(claim, at, picked, wanted, offers, i + 1, left - 1)
            picked.pop()
            self._mine.discard(offer.id)

    def _taken(self, offer: Offered) -> bool:
        return offer.id in self._used or offer.id in self._mine

    def _offers(self, wanted: _Wanted) -> list[Offered]:
        found = self._devices.matching(wanted.class_name, wanted.selectors, wanted.tolerations)
        local = found.get(self._node, [])
        row = self._row
        shared = [offer for offer in found.get("", ()) if self._devices.reaches(offer, row)]
        return [*local, *shared] if shared else local

    def _counters_allow(self, offer: Offered) -> bool:
        """Whether its pool's shared counters have enough left for a device, after those in use or picked."""
        uses = offer.device.consumes_counters
        if not uses:
            return True
        driver, pool, _ = offer.id
        left = self._devices.counters(driver, pool)
        for identity in (*self._used, *self._mine, offer.id):
            if identity[:2] != (driver, pool):
                continue
            other = self._devices.offer(identity)
            for use in other.device.consumes_counters if other is not None else ():
                for name, counter in use.counters.items():
                    key = (use.counter_set, name)
                    left[key] = left.get(key, 0) - cel.quantity(counter.value).nanos
        return all(left.get((use.counter_set, name), -1) >= 0 for use in uses for name in use.counters)


def _ways(request: DeviceRequest) -> list[_Wanted]:
    """Return the ways to fill a request, the preferred first."""
    exact = request.exactly
    if exact is not None:
        everything = exact.allocation_mode == "All"
        return [
            _Wanted(
                request.name,
                exact.device_class_name,
                exact.selectors,
                exact.tolerations,
                everything,
                exact.count,
                exact.admin_access,
            )
        ]
    return [
        _Wanted(
            f"{request.name}/{sub.name}",
            sub.device_class_name,
            sub.selectors,
            sub.tolerations,
            sub.allocation_mode == "All",
            sub.count,
            False,
        )
        for sub in request.first_available
    ]


def _keeps_constraints(claim: ResourceClaim, name: str, offer: Offered, picked: Sequence[_Picked]) -> bool:
    """Whether a device agrees with those picked so far in every attribute that must be equal."""
    for constraint in claim.spec.devices.constraints:
        if not constraint.match_attribute or not _concerns(constraint.requests, name):
            continue
        mine = attribute_of(offer, constraint.match_attribute)
        if mine is None:
            return False
        for other in picked:
            if _concerns(constraint.requests, other.request):
                theirs = attribute_of(other.offer, constraint.match_attribute)
                if type(theirs) is not type(mine) or theirs != mine:
                    return False
                break  # the picked devices have been checked against each other
    return True


def _concerns(requests: Sequence[str], name: str) -> bool:
    return not requests or name in requests or name.partition("/")[0] in requests


def _result(devices: Devices, claim: ResourceClaim, picked: Sequence[_Picked], node: str) -> Allocation:
    """Return a claim's ``status.allocation``."""
    results = []
    for pick in picked:
        driver, pool, device = pick.offer.id
        result: dict[str, Any] = {"request": pick.request, "driver": driver, "pool": pool, "device": device}
        if pick.admin:
            result["adminAccess"] = True
        results.append(result)
    body: dict[str, Any] = {"results": results}
    config = [*_class_config(devices, claim, picked), *_claim_config(claim, picked)]
    if config:
        body["config"] = config
    allocation: dict[str, Any] = {"devices": body}
    if not all(pick.offer.everywhere for pick in picked):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return allocation


def _class_config(devices: Devices, claim: ResourceClaim, picked: Sequence[_Picked]) -> Iterator[dict[str, Any]]:
    names = {pick.request for pick in picked}
    for request in claim.spec.devices.requests:
        for wanted in _ways(request):
            chosen = devices.classes.get(wanted.class_name)
            if wanted.name in names and chosen is not None:
                for config in chosen.spec.config:
                    yield {**config, "source": "FromClass", "requests": [wanted.name]}


def _claim_config(claim: ResourceClaim, picked: Sequence[_Picked]) -> Iterator[dict[str, Any]]:
    names = {pick.request for pick in picked}
    for config in claim.spec.devices.config:
        requests = config.get("requests") or []
        if not requests or any(_concerns(requests, name) for name in names):
            yield {**config, "source": "FromClaim"}
