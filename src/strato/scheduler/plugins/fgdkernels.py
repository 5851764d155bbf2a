"""Kernels of the plugin ``fgd``: how much of a node's idle GPUs a workload cannot use, and how a pod changes that.

A node is a row: idle millicores and, card by card, the idle thousandths (-1 where there is no card). The workload is a
list of typical pods with the probability of each. A node's fragments are the thousandths that a typical pod, drawn by
these probabilities, cannot use there: all idle ones if the pod does not fit the node, else those of the cards too full
for its share (Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 4). Scores are whole points in [0, 100]
as the paper's scheduler gives them: so coarse that many nodes are equal, which is part of how its policies behave.
"""

from __future__ import annotations

from math import exp
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.machinecode import jit
from strato.scheduler.placement.arrays import Floats, Int64s

WHOLE: Final = 1000
"""Thousandths of a card."""
FRAGMENTATION, DOT_PRODUCT, BEST_FIT, PACKING, CLUSTERING, RANDOM = range(6)
"""Policies."""

_jit = jit()


class TypicalPodArrays(NamedTuple):
    """Typical pods, k of them, with s different shares and m models of cards.

    Attributes:
        cpu: int64[k], millicores.
        cards: int64[k], cards of each; 0 for a pod that uses no GPU: to it every idle card is lost.
        share: int64[k], index of its share in ``shares``; any without cards.
        weight: float64[k], probability; they add up to 1.
        accepts: bool[k, m], whether it runs on cards of a model.
        shares: int64[s], thousandths of each card.
    """

    cpu: Int64s
    cards: Int64s
    share: Int64s
    weight: Floats
    accepts: npt.NDArray[np.bool_]
    shares: Int64s


class NodeArrays(NamedTuple):
    """State of nodes for the kernels, by row.

    Attributes:
        left: int64[rows, c], idle thousandths of each card, -1 for none.
        unit: int64[rows], memory of a card, by which pods ask for shares; 1000 where that is thousandths.
        model: int64[rows], number of the model of its cards.
        kinds: int64[rows, c + 1], pods on it that hold: a share of a card (0), n whole cards (n).
        fragments: float64[rows], as `fragments_of` gives them, in thousandths.
    """

    left: Int64s
    unit: Int64s
    model: Int64s
    kinds: Int64s
    fragments: Floats


class PodRequest(NamedTuple):
    """What a pod asks for.

    Attributes:
        cpu: Millicores.
        memory: Of one card, in its units; 0 for whole cards.
        cards: Whole cards; 0 with ``memory``, and for a pod without GPUs.
    """

    cpu: int
    memory: int
    cards: int


@_jit
def share_on(ask: PodRequest, unit: int) -> int:
    """Return the thousandths of each card that a pod takes on a node whose cards have ``unit`` of memory."""
    if ask.memory == 0:
        return WHOLE if ask.cards > 0 else 0
    return (ask.memory * WHOLE + unit - 1) // unit


@_jit
def fragments_of(left: Int64s, cpu: int, model: int, workload: TypicalPodArrays) -> float:
    """Return the expected thousandths that a typical pod cannot use. O(shares × cards + k).

    What is lost is summed by its cause and then over the causes, in the order of the published implementation: nodes
    that a pod leaves as they are must score 50, and the last bit decides between 50 and 49.

    Args:
        left: int64[c], one row of `NodeArrays.left`.
        cpu: Idle millicores.
        model: Number of the cards' model.
        workload: What typically comes.
    """
    total = 0
    for card in range(left.size):
        if left[card] > 0:
            total += left[card]
    if total == 0:
        return 0.0
    kinds = workload.shares.size
    fitting, below = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    for kind in range(kinds):
        share = workload.shares[kind]
        for card in range(left.size):
            if left[card] >= share:
                fitting[kind] += 1
            elif left[card] > 0:
                below[kind] += left[card]
    both = cards = cores = idle = idle_cores = models = 0.0
    for pod in range(workload.cpu.size):
        kind, weight = workload.share[pod], workload.weight[pod]
        enough = cpu >= workload.cpu[pod]
        if workload.cards[pod] == 0:
            if enough:
                idle += weight * total
            else:
                idle_cores += weight * total
        elif not workload.accepts[pod, model]:
            models += weight * total
        elif fitting[kind] >= workload.cards[pod]:
            if enough:
                cards += weight * below[kind]
            else:
                cores += weight * total
        elif enough:
            cards += weight * total
        else:
            both += weight * total
    return both + cards + cores + idle + idle_cores + models


@_jit
def refresh(rows: Int64s, cpu: Int64s, state: NodeArrays, workload: TypicalPodArrays) -> None:
    """Compute ``state.fragments`` of some rows anew; ``cpu`` is int64[rows], idle millicores of each of these."""
    for at in range(rows.size):
        row = rows[at]
        state.fragments[row] = fragments_of(state.left[row], cpu[at], state.model[row], workload)


@_jit
def _gain(before: float, after: float) -> int:
    """Return the points of a node whose fragments change: 50 for no change, more for fewer."""
    return int(100.0 / (1.0 + exp((after - before) / WHOLE)))


@_jit
def _least_fragmenting(
    ask: PodRequest, left: Int64s, unit: int, cpu: int, model: int, before: float, workload: TypicalPodArrays
) -> tuple[int, int]:
    """Return the points of the best card for a share, and the card; (-1, -1) when none has room."""
    share = share_on(ask, unit)
    best, chosen = -1, -1
    for card in range(left.size):
        if left[card] < share:
            continue
        tried = False
        for other in range(card):
            tried |= left[other] == left[card]
        if tried:
            continue  # equal to an earlier card, which is preferred
        left[card] -= share
        points = _gain(before, fragments_of(left, cpu - ask.cpu, model, workload))
        left[card] += share
        if points > best:
            best, chosen = points, card
    return best, chosen


@_jit
def _fragmentation(
    ask: PodRequest, row: int, cpu: int, state: NodeArrays, workload: TypicalPodArrays, scratch: Int64s
) -> int:
    scratch[:] = state.left[row]
    before, model = state.fragments[row], state.model[row]
    if ask.memory > 0:
        return _least_fragmenting(ask, scratch, state.unit[row], cpu, model, before, workload)[0]
    missing = ask.cards
    for card in range(scratch.size):
        if missing > 0 and scratch[card] == WHOLE:
            scratch[card] = 0
            missing -= 1
    return _gain(before, fragments_of(scratch, cpu - ask.cpu, model, workload))


@_jit
def _packing(share: int, cards: int, left: Int64s) -> int:
    """Return points by which cards a pod would get: used ones before idle ones, used nodes before idle ones."""
    there, idle = 0, 0
    for card in range(left.size):
        there += left[card] >= 0
        idle += left[card] == WHOLE
    if idle == there:
        return max(100 // 3 - idle, idle)
    taken = np.zeros(left.size, np.bool_)
    broken, free_percent = 0, 0
    for _ in range(cards):
        best = -1
        for card in range(left.size):
            if not taken[card] and left[card] >= share and (best < 0 or left[card] < left[best]):
                best = card
        taken[best] = True
        broken += left[best] == WHOLE
        free_percent += left[best] * 100 // WHOLE
    if broken:
        return max(100 // 2 - broken, 100 // 3)
    return max(100 - free_percent // 10, 100 // 2)


@_jit
def _clustering(kind: int, kinds: Int64s, idle: int, most: int) -> int:
    """Return points by the pods that are there: only equal ones, equal ones too, none, only others."""
    fill = 25 * (most - idle) // most
    different = 0
    for count in kinds:
        different += count > 0
    if kinds[kind] > 0:
        return fill + (75 if different == 1 else 50)
    return fill + (25 if different == 0 else 0)


@_jit
def judge(
    policy: int,
    rows: Int64s,
    ask: PodRequest,
    cpu: Int64s,
    state: NodeArrays,
    workload: TypicalPodArrays,
    most_cpu: int,
    most_cards: int,
    out: Int64s,
) -> None:
    """Score rows for one pod by a policy other than `RANDOM`; -1 where the cards do not suffice.

    Args:
        policy: Which one.
        rows: int64[n], the rows to look at, all with the cpu that is asked for.
        ask: What the pod asks for.
        cpu: int64[n], idle millicores of each of these rows.
        state: The nodes. Not changed.
        workload: What typically comes; only for `FRAGMENTATION`.
        most_cpu: Millicores of the largest node, by which amounts are made comparable.
        most_cards: Cards of the node that has most.
        out: int64[rows]; receives whole points in [0, 100] at the rows looked at.
    """
    width = state.left.shape[1]
    scratch = np.zeros(width, np.int64)
    most = float(max(most_cards, 1) * WHOLE)
    for at in range(rows.size):
        row = rows[at]
        left = state.left[row]
        share = share_on(ask, state.unit[row])
        cards = 1 if ask.memory > 0 else ask.cards
        fitting, idle = 0, 0
        for card in range(width):
            fitting += left[card] >= share
            idle += max(left[card], 0)
        if cards > 0 and fitting < cards:
            out[row] = -1
        elif policy == FRAGMENTATION:
            out[row] = _fragmentation(ask, row, cpu[at], state, workload, scratch)
        elif policy == DOT_PRODUCT:
            dot = (cpu[at] / most_cpu) * (ask.cpu / most_cpu) + (idle / most) * (share * cards / most)
            out[row] = int(100.0 * (1.0 - dot / 2.0))
        elif policy == BEST_FIT:
            rest = (cpu[at] - ask.cpu) / most_cpu * 0.5 + (idle - share * cards) / most * 0.5
            out[row] = int((1.0 - rest) * 100.0)
        elif cards == 0:
            out[row] = 0
        elif policy == PACKING:
            out[row] = _packing(share, cards, left)
        else:
            kind = 0 if ask.memory > 0 else min(cards, width)
            out[row] = _clustering(kind, state.kinds[row], idle, int(most))


@_jit
def card_for_share(
    policy: int, ask: PodRequest, row: int, cpu: int, state: NodeArrays, workload: TypicalPodArrays
) -> int:
    """Return the card whose share a pod gets on a row; -1 when none has room.

    The least fragmenting one under `FRAGMENTATION`, else the fullest that has room; the first among equals.

    Args:
        policy: Which one.
        ask: A share of a card.
        row: The node.
        cpu: Idle millicores of the row before the pod came.
        state: The nodes. Not changed.
        workload: What typically comes.
    """
    left = state.left[row].copy()
    if policy == FRAGMENTATION:
        before = fragments_of(left, cpu, state.model[row], workload)
        return _least_fragmenting(ask, left, state.unit[row], cpu, state.model[row], before, workload)[1]
    share = share_on(ask, state.unit[row])
    chosen = -1
    for card in range(left.size):
        if left[card] >= share and (chosen < 0 or left[card] < left[chosen]):
            chosen = card
    return chosen
