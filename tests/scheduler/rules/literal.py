"""Resource vectors and two share plugins, word by word (scheduler-core 4, volcano-plugins 4 and 5); slow on purpose.

A vector is a dict of amounts in internal units with ``cpu`` and ``memory`` always there; a scalar may be absent, which
is not the same as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EPS = 0.1
Vector = dict[str, float]
FIRST = ("cpu", "memory")


def empty() -> Vector:
    return {"cpu": 0.0, "memory": 0.0}


def added(left: Vector, right: Vector) -> Vector:
    return {name: left.get(name, 0.0) + right.get(name, 0.0) for name in {**left, **right}}


def is_empty(vector: Vector) -> bool:
    return all(amount < EPS for name, amount in vector.items() if name != "pods")


def le(a: float, b: float) -> bool:
    return a < b or abs(a - b) < EPS


def less_equal_zero(left: Vector, right: Vector) -> bool:
    """LessEqual with Zero: what only the right side has is ignored, what only the left has is compared to 0."""
    return all(le(amount, right.get(name, 0.0)) for name, amount in left.items())


def exceeded(left: Vector, right: Vector) -> Vector:
    """ExceededPart: how much of left is beyond right, per dimension."""
    return {name: max(left.get(name, 0.0) - right.get(name, 0.0), 0.0) for name in {**left, **right}}


def capped(left: Vector, right: Vector, *, infinity: bool) -> Vector:
    """MinDimensionResource: what right lacks is unlimited, or nothing."""
    out = {}
    for name, amount in left.items():
        if name in FIRST or name in right:
            out[name] = min(amount, right[name])
        else:
            out[name] = amount if infinity else 0.0
    return out


def larger(left: Vector, right: Vector) -> Vector:
    return {name: max(left.get(name, 0.0), right.get(name, 0.0)) for name in {**left, **right}}


def share(part: float, whole: float) -> float:
    return (0.0 if part == 0 else 1.0) if whole == 0 else part / whole


def dominant(allocated: Vector, whole: Vector) -> float:
    """Return the largest share over the dimensions of ``whole`` that are there."""
    return max([share(allocated.get(n, 0.0), amount) for n, amount in whole.items() if amount >= EPS], default=0.0)


@dataclass
class SlowQueue:
    weight: float
    capability: Vector | None
    guarantee: Vector
    allocated: Vector
    pending: Vector
    deserved: Vector = field(default_factory=empty)

    @property
    def request(self) -> Vector:
        return added(self.allocated, self.pending)

    @property
    def share(self) -> float:
        return dominant(self.allocated, self.deserved)

    @property
    def overused(self) -> bool:
        return less_equal_zero(self.deserved, self.allocated)

    def real_capability(self, total: Vector, guaranteed: Vector) -> Vector:
        real = added(exceeded(total, guaranteed), self.guarantee)
        if self.capability is None:
            return real
        limit = {n: (a if a > 0 or n not in FIRST else float("inf")) for n, a in self.capability.items()}
        return capped(real, {**dict.fromkeys(FIRST, float("inf")), **limit}, infinity=True)


def water_fill(queues: dict[str, SlowQueue], total: Vector) -> None:
    """Set what every queue deserves (spec volcano-plugins 5.2)."""
    guaranteed = empty()
    for queue in queues.values():
        guaranteed = added(guaranteed, queue.guarantee)
    remaining, met = dict(total), set[str]()
    while True:
        weights = sum(queue.weight for name, queue in queues.items() if name not in met)
        if weights == 0:
            return
        old, increased, decreased = dict(remaining), empty(), empty()
        for name, queue in queues.items():
            if name in met:
                continue
            before = dict(queue.deserved)
            part = {n: amount * (queue.weight / weights) for n, amount in remaining.items()}
            after = capped(added(before, part), queue.real_capability(total, guaranteed), infinity=True)
            after = larger(capped(after, queue.request, infinity=False), queue.guarantee)
            queue.deserved = after
            if less_equal_zero(queue.request, after) or {**before} == {**after}:
                met.add(name)
            increased = added(increased, exceeded(after, before))
            decreased = added(decreased, exceeded(before, after))
        remaining = exceeded(added(remaining, decreased), increased)
        if is_empty(remaining) or remaining == old:
            return
