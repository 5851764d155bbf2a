"""Numba kernels: score nodes for a task class, keep the scores in a tournament tree, place a batch of equal tasks.

Importing this module imports Numba (half a second); only `strato.scheduler.placement` does, when a scheduler starts.
There are two public kernels with one signature each, so a first compilation takes seconds and a cached load
milliseconds: `place_batch` looks at all rows through a tree, `place_near` scans some rows and knows network domains.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LEAST, MOST, BALANCED, PACK = 0, 1, 2, 3
"""Kinds of resource score terms, see `strato.scheduler.placement.ResourceTerm`."""

FUTURE, LIMIT_PODS, EXCLUSIVE, KEEP, PROMISE = 1, 2, 4, 8, 16
"""Flags of `place_batch`: use what will be idle instead of what is; a row may hold only its allocatable number of
pods; a row takes one task of the batch only; only bring the tree up to date, place nothing; charge ``pipelined`` even
where idle was asked for (`place_near` only)."""

PLACES, OFFSET, SEEN, BUILT = 0, 1, 2, 3
"""Entries of a tree's ``head``: leaves, row shown by leaf 0, journal cursor it is current with, 1 when built."""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def _asked(request):  # type: ignore[no-untyped-def] # numba
    """Return the columns a request is held against: cpu, memory, and whatever else it names."""
    columns = np.empty(request.size, np.int64)
    n = 0
    for d in range(request.size):
        if request[d] > 0 or d < 2:
            columns[n] = d
            n += 1
    return columns[:n]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def _fits(row, request, asked, idle, releasing, pipelined, pods, allocatable, flags):  # type: ignore[no-untyped-def] # numba
    if flags & FUTURE == 0:
        for j in range(asked.size):
            if request[asked[j]] > idle[row, asked[j]]:
                return False
    if flags & FUTURE or pipelined[row, 2] != 0:  # a promise takes a pod slot: without one, idle alone decides
        for j in range(asked.size):
            d = asked[j]
            if request[d] > idle[row, d] + releasing[row, d] - pipelined[row, d]:
                return False
    return flags & LIMIT_PODS == 0 or pods[row] < allocatable[row, 2]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def _charge(row, request, asked, scored_request, idle, pipelined, requested, scored, pods, journal, cursor, flags):  # type: ignore[no-untyped-def] # numba
    for j in range(asked.size):
        d = asked[j]
        if flags & (FUTURE | PROMISE):
            pipelined[row, d] += request[d]
        else:
            idle[row, d] -= request[d]
        requested[row, d] += request[d]
    scored[row, 0] += scored_request[0]
    scored[row, 1] += scored_request[1]
    pods[row] += 1
    journal[cursor[0] % journal.size] = row
    cursor[0] += 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def score_row(row, request, scored_request, allocatable, idle, requested, scored, kinds, weights, dims, dim_weights):  # type: ignore[no-untyped-def] # numba
    """Return the resource terms' points of one row, in the words of `place_batch`; mutates nothing, O(terms)."""
    parts = np.empty(dims.shape[1])
    return _score(
        row,
        request,
        scored_request,
        allocatable,
        idle,
        requested,
        scored,
        kinds,
        weights,
        dims,
        dim_weights,
        parts,
    )


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def _score(  # type: ignore[no-untyped-def] # numba
    row,
    request,
    scored_request,
    allocatable,
    idle,
    requested,
    scored,
    kinds,
    weights,
    dims,
    dim_weights,
    parts,
):
    """Do what `score_row` does; ``parts`` is scratch of as many entries as a term may name columns."""
    total = 0.0
    for t in range(kinds.size):
        kind = kinds[t]
        if kind in (LEAST, MOST):
            points = 0
            whole = 0
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                capacity = allocatable[row, d]
                if capacity == 0:
                    continue
                used = scored[row, d] + scored_request[d] if d < 2 else requested[row, d] + request[d]
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
            n = 0
            mean = 0.0
            asked = False
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                asked = asked or request[d] > 0
                if allocatable[row, d] > 0 and (d < 2 or request[d] > 0):
                    parts[n] = min((requested[row, d] + request[d]) / allocatable[row, d], 1.0)
                    mean += parts[n]
                    n += 1
            if not asked:
                continue
            if n == 0:
                total += 100.0 * weights[t]
                continue
            mean = mean / n
            spread = 0.0
            apart = 0.0
            for j in range(n):
                spread += (parts[j] - mean) * (parts[j] - mean)
                apart = parts[j] - apart
            deviation = abs(apart) / 2 if n == 2 else np.sqrt(spread / n)
            total += float(int((1.0 - deviation) * 100.0)) * weights[t]
        else:
            points_f = 0.0
            whole_f = 0.0
            for j in range(dims.shape[1]):
                d = dims[t, j]
                if d < 0:
                    break
                need = request[d]
                if need <= 0:
                    continue
                capacity = allocatable[row, d]
                used = capacity - idle[row, d] + need
                w_f = dim_weights[t, j]
                if capacity > 0:
                    if used > capacity:
                        points_f = 0.0
                        whole_f = 0.0
                        break
                    points_f += (used if w_f >= 0 else used - capacity) * w_f / capacity
                whole_f += abs(w_f)
            if whole_f > 0:
                points_f = points_f / whole_f
            total += points_f * 100.0 * weights[t]
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def place_batch(  # type: ignore[no-untyped-def] # numba
    count,
    flags,
    rows,
    request,
    scored_request,
    allocatable,
    idle,
    releasing,
    pipelined,
    requested,
    scored,
    pods,
    journal,
    cursor,
    mask,
    base,
    sensitive,
    kinds,
    weights,
    dims,
    dim_weights,
    tree,
    head,
    out,
):
    """Place up to ``count`` equal tasks, each on the best row left, and charge the rows.

    Identical to: for each task, take the row of highest score among those that fit (first one from ``head[OFFSET]`` on
    among equals), and charge it. The scores live in a tournament tree that is brought up to date from the journal.

    Args:
        count: Tasks to place.
        flags: Sum of FUTURE, LIMIT_PODS, EXCLUSIVE, KEEP.
        rows: Rows in use; every array has at least as many.
        request: int64[width], what one task asks for.
        scored_request: int64[2], cpu and memory as scoring sees them.
        allocatable: int64[n, width], a column set of the `NodeTable`, as are the next six.
        idle: int64[n, width]; charged in place, unless under FUTURE.
        releasing: int64[n, width].
        pipelined: int64[n, width]; charged in place under FUTURE.
        requested: int64[n, width]; charged in place.
        scored: int64[n, 2]; charged in place.
        pods: int64[n]; charged in place.
        journal: int32[], the table's journal; every charged row is appended.
        cursor: int64[1], its position.
        mask: bool[n], rows the static filters allow.
        base: float64[n], static part of the score, added first.
        sensitive: bool[n]; the batch ends after a placement that fills such a row, because base may change.
        kinds: int64[t], kinds of the resource terms.
        weights: float64[t], their weights.
        dims: int64[t, k], the columns of each; -1 ends.
        dim_weights: float64[t, k], the weights of those.
        tree: float64[2 * leaves], the class's tree, -inf where a row does not fit.
        head: int64[4], see PLACES.
        out: int32[>= count], receives the rows chosen.

    Returns: Number of tasks placed.
    Complexity: O(rows) when built, else O(changed rows · log rows), plus O(log rows) per task.
    """
    asked = _asked(request)
    parts = np.empty(dims.shape[1])
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
                if mask[row] and _fits(row, request, asked, idle, releasing, pipelined, pods, allocatable, flags):
                    value = base[row] + _score(
                        row,
                        request,
                        scored_request,
                        allocatable,
                        idle,
                        requested,
                        scored,
                        kinds,
                        weights,
                        dims,
                        dim_weights,
                        parts,
                    )
            tree[leaves + i] = value
        for i in range(leaves - 1, 0, -1):
            tree[i] = max(tree[2 * i], tree[2 * i + 1])
        head[3] = 1
    else:
        for p in range(head[2], now):
            row = journal[p % journal.size]
            if row >= rows:
                continue
            value = -np.inf
            if mask[row] and _fits(row, request, asked, idle, releasing, pipelined, pods, allocatable, flags):
                value = base[row] + _score(
                    row,
                    request,
                    scored_request,
                    allocatable,
                    idle,
                    requested,
                    scored,
                    kinds,
                    weights,
                    dims,
                    dim_weights,
                    parts,
                )
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
        _charge(row, request, asked, scored_request, idle, pipelined, requested, scored, pods, journal, cursor, flags)
        out[placed] = row
        placed += 1
        value = -np.inf
        if flags & EXCLUSIVE == 0 and _fits(row, request, asked, idle, releasing, pipelined, pods, allocatable, flags):
            value = base[row] + _score(
                row,
                request,
                scored_request,
                allocatable,
                idle,
                requested,
                scored,
                kinds,
                weights,
                dims,
                dim_weights,
                parts,
            )
        tree[i] = value
        i //= 2
        while i > 0:
            tree[i] = max(tree[2 * i], tree[2 * i + 1])
            i //= 2
        if value == -np.inf and sensitive[row]:
            break
    head[2] = cursor[0]
    return placed


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def _filled(domain, used, capacity, asked, asked_weights):  # type: ignore[no-untyped-def] # numba
    points = 0.0
    whole = 0.0
    for k in range(asked.size):
        if asked[k] > 0:
            if used[domain, k] + asked[k] > capacity[domain, k]:
                return 0.0
            points += (used[domain, k] + asked[k]) / capacity[domain, k] * asked_weights[k]
            whole += asked_weights[k]
    return points / whole if whole > 0 else 0.0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def _lca(left, right, parent):  # type: ignore[no-untyped-def] # numba
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def place_near(  # type: ignore[no-untyped-def] # numba
    count,
    flags,
    rows,
    start,
    request,
    scored_request,
    allocatable,
    idle,
    releasing,
    pipelined,
    requested,
    scored,
    pods,
    journal,
    cursor,
    mask,
    base,
    sensitive,
    kinds,
    weights,
    dims,
    dim_weights,
    out,
    leaf,
    parent,
    weight,
    near,
    closeness,
    members,
    total,
    used,
    capacity,
    asked,
    asked_weights,
    shares,
    absent,
):
    """Place up to ``count`` equal tasks, each on the best of some rows, and charge them; scores follow the domains.

    Identical to: for each task, take the row of highest score among those that fit (first one from ``start`` on among
    equals), and charge it. The part of the score that speaks of network domains changes with every placement: by how
    close a row is to where the gang lies (``near``), or by how full the domains around a row are (``used``).

    Args:
        count: Tasks to place.
        flags: Sum of FUTURE, LIMIT_PODS, EXCLUSIVE, PROMISE.
        rows: int64[r], the rows to choose from.
        start: Position in ``rows`` where the search begins.
        request: int64[width], what one task asks for.
        scored_request: int64[2], cpu and memory as scoring sees them.
        allocatable: int64[n, width], a column set of the `NodeTable`, as are the next eight; see `place_batch`.
        idle: Charged in place, unless under FUTURE.
        releasing: Read only.
        pipelined: Charged in place under FUTURE.
        requested: Charged in place.
        scored: Charged in place.
        pods: Charged in place.
        journal: Every charged row is appended.
        cursor: Its position.
        mask: bool[r], positions the static filters allow.
        base: float64[r], static part of the score.
        sensitive: bool[r]; the batch ends after a placement that fills such a row.
        kinds: int64[t], kinds of the resource terms, with the next three as in `place_batch`.
        weights: float64[t].
        dims: int64[t, k].
        dim_weights: float64[t, k].
        out: int32[>= count], receives the rows chosen.
        leaf: int32[n], the lowest domain of every row.
        parent: int32[domains].
        weight: Factor of the domains' part; 0 when there is none.
        near: Domain the gang lies in so far, -1 when nowhere; -2 scores by ``used`` instead.
        closeness: float64[domains], how good it is that the domain is the lowest common one.
        members: int64[domains], tasks of the gang inside; kept current.
        total: Tasks of the gang.
        used: float64[domains, k], what is used of ``capacity``; kept current.
        capacity: float64[domains, k].
        asked: float64[k], what one task adds to ``used``.
        asked_weights: float64[k], the weight of each.
        shares: float64[domains], weight of each domain's fill, already divided by the sum over tiers.
        absent: float64[domains], sum of the shares of the tiers that are absent around a leaf.

    Returns: Number of tasks placed.
    Complexity: O((rows + domains) per task).
    """
    columns = _asked(request)
    parts = np.empty(dims.shape[1])
    size = rows.size
    domains = parent.size
    own = np.full(size, -np.inf)
    for i in range(size):
        row = rows[i]
        if mask[i] and _fits(row, request, columns, idle, releasing, pipelined, pods, allocatable, flags):
            own[i] = base[i] + _score(
                row,
                request,
                scored_request,
                allocatable,
                idle,
                requested,
                scored,
                kinds,
                weights,
                dims,
                dim_weights,
                parts,
            )
    part = np.zeros(domains)
    filled = np.zeros(domains)
    if near == -2:
        for d in range(domains):
            filled[d] = _filled(d, used, capacity, asked, asked_weights)
    stale = True
    placed = 0
    while placed < count:
        if stale and near == -2:
            for d in range(domains):
                part[d] = absent[d]
                up = d
                while up >= 0:
                    part[d] += filled[up] * shares[up]
                    up = parent[up]
            stale = False
        elif stale and near >= 0:
            for d in range(domains):
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
                here += members[d] / total
            value = own[i] + here * 100.0 * weight
            if value > best:
                best = value
                at = i
        if at < 0:
            break
        row = rows[at]
        _charge(row, request, columns, scored_request, idle, pipelined, requested, scored, pods, journal, cursor, flags)
        out[placed] = row
        placed += 1
        up = leaf[row]
        if near >= -1:
            lies = _lca(up, near, parent)
            stale = lies != near
            near = lies
        while up >= 0:
            if near == -2:
                for k in range(asked.size):
                    used[up, k] += asked[k]
                filled[up] = _filled(up, used, capacity, asked, asked_weights)
                stale = True
            else:
                members[up] += 1
            up = parent[up]
        own[at] = -np.inf
        if flags & EXCLUSIVE == 0 and _fits(
            row, request, columns, idle, releasing, pipelined, pods, allocatable, flags
        ):
            own[at] = base[at] + _score(
                row,
                request,
                scored_request,
                allocatable,
                idle,
                requested,
                scored,
                kinds,
                weights,
                dims,
                dim_weights,
                parts,
            )
        elif sensitive[at]:
            break
    return placed
