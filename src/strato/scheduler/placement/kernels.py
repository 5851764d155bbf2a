"""Numba kernels: score nodes for a task class, keep the scores in a tournament tree, place a batch of equal tasks.

Importing this module imports Numba (half a second), so nothing imports it before a scheduler starts.
The public kernels have one signature each, so a first compilation takes seconds and a cached load milliseconds:
`place_batch` looks at all rows through a tree, `place_near` scans some and knows network domains, `mark_fitting` and
`score_rows` serve tasks placed one by one. Arrays that belong together travel as the named tuples of `arrays`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from strato.machinecode import jit
from strato.scheduler.model.answers import BALANCED, LEAST, MOST
from strato.scheduler.model.nodes import Columns
from strato.scheduler.placement.arrays import Domains, Floats, Int32s, Int64s, RequestRow, ScoreTerms, Static

FUTURE, LIMIT_PODS, EXCLUSIVE, KEEP = 1, 2, 4, 8
"""Flags of `place_batch`: use what will be idle instead of what is; a row may hold only its allocatable number of
pods; a row takes one task of the batch only; only bring the tree up to date, place nothing."""

PLACES, OFFSET, SEEN, BUILT = 0, 1, 2, 3
"""Entries of a tree's ``head``: leaves, row shown by leaf 0, journal cursor it is current with, 1 when built."""

_outer = jit()
_inner = jit(_nrt=False, forceinline=True)
"""For functions that run per row: without counting references to arrays, which took two thirds of their time."""


@_outer
def _asked(request: Int64s) -> Int64s:
    """Return the columns that nodes are checked for: cpu, memory, and whatever else is requested."""
    columns = np.empty(request.size, np.int64)
    n = 0
    for d in range(request.size):
        if request[d] > 0 or d < 2:
            columns[n] = d
            n += 1
    return columns[:n]


@_inner
def _fits(row: int, want: RequestRow, asked: Int64s, nodes: Columns, flags: int) -> bool:
    request, idle, pipelined = want.request, nodes.idle, nodes.pipelined
    if flags & FUTURE == 0:
        for j in range(asked.size):
            if request[asked[j]] > idle[row, asked[j]]:
                return False
    if flags & FUTURE or pipelined[row, 2] != 0:  # a pipelined pod takes a pod slot: without one, idle alone decides
        for j in range(asked.size):
            d = asked[j]
            if request[d] > idle[row, d] + nodes.releasing[row, d] - pipelined[row, d]:
                return False
    return flags & LIMIT_PODS == 0 or nodes.pods[row] < nodes.allocatable[row, 2]


@_inner
def _charge(row: int, want: RequestRow, asked: Int64s, nodes: Columns, by: Int64s) -> None:
    idle, releasing, pipelined, requested = by[0], by[1], by[2], by[3]
    for j in range(asked.size):
        d = asked[j]
        need = want.request[d]
        nodes.idle[row, d] += idle * need
        nodes.releasing[row, d] += releasing * need
        nodes.pipelined[row, d] += pipelined * need
        nodes.requested[row, d] += requested * need
    nodes.scored[row, 0] += requested * want.scored[0]
    nodes.scored[row, 1] += requested * want.scored[1]
    nodes.pods[row] += requested
    nodes.journal[nodes.cursor[0] % nodes.journal.size] = row
    nodes.cursor[0] += 1


@_inner
def _balance(parts: Floats, n: int) -> int:
    """Return how equal the first ``n`` fractions are, in points: 100 when equal."""
    if n < 2:
        return 100
    if n == 2:
        return int((1.0 - abs(parts[0] - parts[1]) / 2) * 100.0)
    mean = spread = 0.0
    for j in range(n):
        mean += parts[j]
    mean /= n
    for j in range(n):
        spread += (parts[j] - mean) * (parts[j] - mean)
    return int((1.0 - np.sqrt(spread / n)) * 100.0)


@_inner
def _score(row: int, want: RequestRow, nodes: Columns, terms: ScoreTerms, parts: Floats) -> float:
    """Return the resource terms' points of a row; ``parts`` is scratch with room for the columns of any term."""
    request, allocatable, requested = want.request, nodes.allocatable, nodes.requested
    kinds, weights, dims, dim_weights = terms.kinds, terms.weights, terms.dims, terms.dim_weights
    total = 0.0
    for t in range(kinds.size):
        kind = kinds[t]
        if kind in (LEAST, MOST):
            points = whole = 0
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                capacity = allocatable[row, d]
                if capacity == 0:
                    continue
                used = nodes.scored[row, d] + want.scored[d] if d < 2 else requested[row, d] + request[d]
                w = int(dim_weights[t, j])
                whole += w
                if kind == LEAST:
                    if used <= capacity:
                        points += (capacity - used) * 100 // capacity * w
                else:
                    points += min(used, capacity) * 100 // capacity * w
            if whole > 0:
                total += (points // whole) * weights[t]
        elif kind == BALANCED:
            n, asked = 0, False
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                asked = asked or request[d] > 0
                if allocatable[row, d] > 0 and (d < 2 or request[d] > 0):
                    parts[n] = min((requested[row, d] + request[d]) / allocatable[row, d], 1.0)
                    n += 1
            if not asked:
                continue
            after = _balance(parts, n)
            n = 0
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                if allocatable[row, d] > 0 and (d < 2 or request[d] > 0):
                    parts[n] = min(requested[row, d] / allocatable[row, d], 1.0)
                    n += 1
            total += float(50 + (50 + after - _balance(parts, n)) // 2) * weights[t]
        else:
            points_f = whole_f = 0.0
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                need = request[d]
                if need <= 0:
                    continue
                capacity = allocatable[row, d]
                used = capacity - nodes.idle[row, d] + need
                w_f = dim_weights[t, j]
                if capacity > 0:
                    if used > capacity:
                        points_f = whole_f = 0.0
                        break
                    points_f += (used if w_f >= 0 else used - capacity) * w_f / capacity
                whole_f += abs(w_f)
            if whole_f > 0:
                points_f = points_f / whole_f
            total += points_f * 100.0 * weights[t]
    return total


@_inner
def _value(
    row: int,
    allowed: bool,
    base: float,
    want: RequestRow,
    asked: Int64s,
    nodes: Columns,
    terms: ScoreTerms,
    parts: Floats,
    flags: int,
) -> float:
    """Return the score of a row whose static part is ``base``, -inf where a task does not fit."""
    if not allowed or not _fits(row, want, asked, nodes, flags):
        return -np.inf
    return base + _score(row, want, nodes, terms, parts)


@_outer
def score_rows(rows: Int64s, want: RequestRow, nodes: Columns, terms: ScoreTerms, points: Floats) -> None:
    """Write the resource terms' points of some rows to ``points``: float64[n]. O(rows · terms)."""
    parts = np.empty(terms.dims.shape[1])
    for row in rows:
        points[row] = _score(row, want, nodes, terms, parts)


@_outer
def mark_fitting(allowed: npt.NDArray[np.bool_], want: RequestRow, nodes: Columns, flags: int) -> None:
    """Clear ``allowed``, bool[n], at the rows without room for a task now (with FUTURE: later). O(n · columns)."""
    asked = _asked(want.request)
    for row in range(allowed.size):
        if allowed[row]:
            allowed[row] = _fits(row, want, asked, nodes, flags)


@_outer
def place_batch(
    count: int,
    flags: int,
    rows: int,
    want: RequestRow,
    by: Int64s,
    nodes: Columns,
    static: Static,
    terms: ScoreTerms,
    tree: Floats,
    head: Int64s,
    out: Int32s,
) -> int:
    """Place up to ``count`` equal tasks, each on the best row left, and charge the rows.

    Identical to: for each task, take the row of highest score among those that fit (first one from ``head[OFFSET]`` on
    among equals), and charge it. The scores live in a tournament tree that is brought up to date from the journal.

    Args:
        count: Tasks to place.
        flags: Sum of FUTURE, LIMIT_PODS, EXCLUSIVE, KEEP.
        rows: Rows in use; every array has at least as many.
        want: The request of one task.
        by: int64[4], how a task that is placed changes its row's columns: `ledger.NodeCharge`.
        nodes: The columns of the `NodeTable`; charged in place, every charged row is appended to the journal.
        static: Static verdicts and scores by row.
        terms: The resource terms.
        tree: float64[2 * leaves], the class's tree, -inf where a row does not fit.
        head: int64[4], see PLACES.
        out: int32[>= count], receives the rows chosen.

    Returns: Number of tasks placed.
    Complexity: O(rows) when built, else O(changed rows · log rows), plus O(log rows) per task.
    """
    asked = _asked(want.request)
    parts = np.empty(terms.dims.shape[1])
    mask, base, sensitive = static
    journal, cursor = nodes.journal, nodes.cursor
    leaves = head[0]
    offset = head[1]
    now = cursor[0]
    lag = now - head[2]
    if head[3] == 0 or lag > journal.size or lag * 8 > rows:
        for i in range(leaves):
            value = -np.inf
            if i < rows:
                row = i + offset
                if row >= rows:
                    row -= rows
                value = _value(row, mask[row], base[row], want, asked, nodes, terms, parts, flags)
            tree[leaves + i] = value
        for i in range(leaves - 1, 0, -1):
            tree[i] = max(tree[2 * i], tree[2 * i + 1])
        head[3] = 1
    else:
        for p in range(head[2], now):
            row = journal[p % journal.size]
            if row >= rows:
                continue
            value = _value(row, mask[row], base[row], want, asked, nodes, terms, parts, flags)
            i = leaves + row - offset
            if row < offset:
                i += rows
            if tree[i] != value:
                tree[i] = value
                i //= 2
                while i > 0:
                    best = max(tree[2 * i], tree[2 * i + 1])
                    if tree[i] == best:
                        break
                    tree[i] = best
                    i //= 2
    head[2] = now
    if flags & KEEP:
        return 0
    placed = 0
    while placed < count and tree[1] > -np.inf:
        i = 1
        while i < leaves:
            i = 2 * i if tree[2 * i] >= tree[2 * i + 1] else 2 * i + 1
        row = i - leaves + offset
        if row >= rows:
            row -= rows
        _charge(row, want, asked, nodes, by)
        out[placed] = row
        placed += 1
        value = -np.inf
        if flags & EXCLUSIVE == 0:
            value = _value(row, mask[row], base[row], want, asked, nodes, terms, parts, flags)
        tree[i] = value
        i //= 2
        while i > 0:
            tree[i] = max(tree[2 * i], tree[2 * i + 1])
            i //= 2
        if value == -np.inf and sensitive[row]:
            break
    head[2] = cursor[0]
    return placed


@_inner
def _filled(domain: int, domains: Domains) -> float:
    used, capacity, asked, weights = domains.used, domains.capacity, domains.asked, domains.asked_weights
    points = whole = 0.0
    for k in range(asked.size):
        if asked[k] > 0:
            if used[domain, k] + asked[k] > capacity[domain, k]:
                return 0.0
            points += (used[domain, k] + asked[k]) / capacity[domain, k] * weights[k]
            whole += weights[k]
    return points / whole if whole > 0 else 0.0


@_inner
def _lca(left: int, right: int, parent: Int32s) -> int:
    if left < 0 or right < 0:
        return max(left, right)
    up = right
    while up >= 0:
        other = left
        while other >= 0:
            if other == up:
                return up
            other = parent[other]
        up = parent[up]
    return -1


@_outer
def place_near(
    count: int,
    flags: int,
    rows: Int64s,
    start: int,
    want: RequestRow,
    by: Int64s,
    nodes: Columns,
    static: Static,
    terms: ScoreTerms,
    domains: Domains,
    out: Int32s,
) -> int:
    """Place up to ``count`` equal tasks, each on the best of some rows, and charge them; scores follow the domains.

    Identical to: for each task, take the row of highest score among those that fit (first one from ``start`` on among
    equals), and charge it. The network domains' part of the score changes with every placement: it depends on how close
    a row is to the domain the gang lies in (``near``), or on how full the domains around a row are (``used``).

    Args:
        count: Tasks to place.
        flags: Sum of FUTURE, LIMIT_PODS, EXCLUSIVE.
        rows: int64[r], the rows to choose from.
        start: Position in ``rows`` where the search begins.
        want: The request of one task.
        by: int64[4], how a task that is placed changes its row's columns: `ledger.NodeCharge`.
        nodes: The columns of the `NodeTable`, charged as by `place_batch`.
        static: Static verdicts and scores by position in ``rows``.
        terms: The resource terms.
        domains: The network domains; ``members`` and ``used`` are updated.
        out: int32[>= count], receives the rows chosen.

    Returns: Number of tasks placed.
    Complexity: O((rows + domains) per task).
    """
    asked = _asked(want.request)
    parts = np.empty(terms.dims.shape[1])
    leaf, parent, near, members = domains.leaf, domains.parent, domains.near, domains.members
    closeness, shares, absent = domains.closeness, domains.shares, domains.absent
    mask, base, sensitive = static
    size = rows.size
    own = np.full(size, -np.inf)
    for i in range(size):
        row = rows[i]
        own[i] = _value(row, mask[i], base[i], want, asked, nodes, terms, parts, flags)
    part, filled = np.zeros(parent.size), np.zeros(parent.size)
    if near == -2:
        for d in range(parent.size):
            filled[d] = _filled(d, domains)
    placed, stale = 0, True
    while placed < count:
        if stale and near == -2:
            for d in range(parent.size):
                part[d] = absent[d]
                up = d
                while up >= 0:
                    part[d] += filled[up] * shares[up]
                    up = parent[up]
            stale = False
        elif stale and near >= 0:
            for d in range(parent.size):
                part[d] = 1.0 if d == near else closeness[_lca(d, near, parent)]
            stale = False
        ties = 0
        top = -np.inf
        if near >= 0:
            for i in range(size):
                if own[i] > -np.inf:
                    here = part[leaf[rows[i]]]
                    if here > top:
                        top = here
                        ties = 1
                    elif here == top:
                        ties += 1
        best = -np.inf
        at = -1
        for k in range(size):
            i = k + start
            if i >= size:
                i -= size
            if own[i] == -np.inf:
                continue
            d = leaf[rows[i]]
            here = part[d]
            if ties > 1 and here == top:
                here += members[d] / domains.total
            value = own[i] + here * 100.0 * domains.weight
            if value > best:
                best = value
                at = i
        if at < 0:
            break
        row = rows[at]
        _charge(row, want, asked, nodes, by)
        out[placed] = row
        placed += 1
        up = leaf[row]
        if near >= -1:
            lies = _lca(up, near, parent)
            stale = lies != near
            near = lies
        while up >= 0:
            if near == -2:
                for k in range(domains.asked.size):
                    domains.used[up, k] += domains.asked[k]
                filled[up] = _filled(up, domains)
                stale = True
            else:
                members[up] += 1
            up = parent[up]
        own[at] = -np.inf
        if flags & EXCLUSIVE == 0:
            own[at] = _value(row, mask[at], base[at], want, asked, nodes, terms, parts, flags)
        if own[at] == -np.inf and sensitive[at]:
            break
    return placed
