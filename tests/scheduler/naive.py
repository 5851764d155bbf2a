"""The slow reference: place tasks one by one, looking at every node, in plain Python numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from strato.scheduler.model.answers import BALANCED, LEAST, MOST, ResourceTerm


@dataclass
class SlowNode:
    row: int
    allocatable: list[int]
    idle: list[int]
    releasing: list[int]
    pipelined: list[int]
    requested: list[int]
    scored: list[int]
    pods: int
    allowed: bool
    base: float


def fits(node: SlowNode, request: list[int], future: bool, limit_pods: bool) -> bool:
    if not node.allowed:
        return False
    for d, need in enumerate(request):
        if need > 0 or d < 2:
            if need > node.idle[d] + node.releasing[d] - node.pipelined[d]:
                return False
            if not future and need > node.idle[d]:
                return False
    return not limit_pods or node.pods < node.allocatable[2]


def balance(parts: list[float]) -> int:
    if len(parts) < 2:
        return 100
    if len(parts) == 2:
        return int((1.0 - abs(parts[0] - parts[1]) / 2) * 100.0)
    mean = spread = 0.0
    for part in parts:
        mean += part
    mean /= len(parts)
    for part in parts:
        spread += (part - mean) * (part - mean)
    return int((1.0 - math.sqrt(spread / len(parts))) * 100.0)


def term_score(node: SlowNode, term: ResourceTerm, request: list[int], scored: list[int]) -> float:
    if term.kind in (LEAST, MOST):
        points = whole = 0
        for d, weight in term.weights:
            capacity = node.allocatable[d]
            if capacity == 0:
                continue
            used = node.scored[d] + scored[d] if d < 2 else node.requested[d] + request[d]
            whole += int(weight)
            if term.kind == LEAST:
                points += (capacity - used) * 100 // capacity * int(weight) if used <= capacity else 0
            else:
                points += min(used, capacity) * 100 // capacity * int(weight)
        return float(points // whole) * term.weight if whole else 0.0
    if term.kind == BALANCED:
        columns = [d for d, _ in term.weights]
        if not any(request[d] for d in columns):
            return 0.0
        seen = [d for d in columns if node.allocatable[d] > 0 and (d < 2 or request[d])]
        before = balance([min(node.requested[d] / node.allocatable[d], 1.0) for d in seen])
        after = balance([min((node.requested[d] + request[d]) / node.allocatable[d], 1.0) for d in seen])
        return float(50 + (50 + after - before) // 2) * term.weight
    score = whole_f = 0.0
    for d, weight in term.weights:
        need = request[d]
        if need <= 0:
            continue
        capacity = node.allocatable[d]
        used = capacity - node.idle[d] + need
        if capacity > 0:
            if used > capacity:
                return 0.0
            score += (used if weight >= 0 else capacity - used) * abs(weight) / capacity
        whole_f += abs(weight)
    if whole_f > 0:
        score /= whole_f
    return score * 100.0 * term.weight


def place(
    nodes: list[SlowNode],
    count: int,
    request: list[int],
    scored: list[int],
    terms: list[ResourceTerm],
    *,
    future: bool,
    limit_pods: bool,
    offset: int,
) -> list[int]:
    """Each task takes the best node that fits, the first from ``offset`` on among equals."""
    chosen: list[int] = []
    for _ in range(count):
        best: SlowNode | None = None
        best_score = -math.inf
        for i in range(len(nodes)):
            node = nodes[(i + offset) % len(nodes)]
            if not fits(node, request, future, limit_pods):
                continue
            total = 0.0
            for term in terms:
                total += term_score(node, term, request, scored)
            score = node.base + total
            if score > best_score:
                best, best_score = node, score
        if best is None:
            break
        for d, need in enumerate(request):
            if future:
                best.pipelined[d] += need
            else:
                best.idle[d] -= need
            best.requested[d] += need
        best.scored[0] += scored[0]
        best.scored[1] += scored[1]
        best.pods += 1
        chosen.append(best.row)
    return chosen
