"""network-topology-aware: which network domains to try, which is best, and which nodes in it (volcano-plugins 17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import EVICT, Plugin
from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.nodes import Mask, NodeTable, Rows
from strato.scheduler.model.resources import CPU, MEMORY, FloatArray, Vector, counts
from strato.scheduler.model.tasks import RELEASING
from strato.scheduler.topology import domains as network
from strato.scheduler.topology.hypernodes import NOWHERE
from strato.scheduler.topology.proximity import FILL, Proximity, fill_of, scores

_MAX_EVICT_DOMAINS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTopologyArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    weight: int = arg("weight", 1, minimum=0)
    """Factor of all scores. Default 1."""
    cpu: int = arg("hypernode.binpack.cpu", 1, minimum=0)
    """Weight of cpu in how full a HyperNode is. Default 1."""
    memory: int = arg("hypernode.binpack.memory", 1, minimum=0)
    """Weight of memory. Default 1."""
    resources: str = arg("hypernode.binpack.resources", "")
    """Further resources that count, separated by commas. Default none."""
    resource_weights: dict[str, int] = field(
        default_factory=dict, metadata={"key": "hypernode.binpack.resources.*", "minimum": None}
    )
    """Weight per further resource; negative counts as 1. Default 1."""
    normal_pods: bool = arg("hypernode.binpack.normal-pod.enable", True)
    """Whether pods without a network topology fill up HyperNodes one after the other. Default true."""
    fading: float = arg("hypernode.binpack.normal-pod.fading", 0.8, minimum=0)
    """What each higher tier counts for them, compared to the one below. Default 0.8."""
    max_evict_domains: int = arg("hypernode.gradient.evict.max-hypernodes", _MAX_EVICT_DOMAINS)
    """How many HyperNodes gangpreempt and gangreclaim look at; not positive counts as 8. Default 8."""


class NetworkTopologyAware(Plugin):
    """Keep gangs within few HyperNodes, and HyperNodes full."""

    name = "network-topology-aware"
    args_type = NetworkTopologyArgs

    def resources(self) -> Sequence[str]:
        """Return the further resources that count."""
        return [name for name in (part.strip() for part in self.args.resources.split(",")) if counts(name)]

    def open(self, ssn: CycleContext) -> None:
        """Resolve resource names to columns; sums over domains are computed when first needed."""
        self._ssn = ssn
        weights = {CPU: self.args.cpu, MEMORY: self.args.memory}
        for name in self.resources():
            weight = self.args.resource_weights.get(name, 1)
            weights[ssn.world.column(name)] = 1 if weight < 0 else weight
        self._columns = list(weights)
        self._weights = np.array(list(weights.values()), np.float64)
        self._evicted: dict[str, Task] = {}
        self._read_at = -1
        self._shares: tuple[FloatArray, FloatArray] | None = None
        self._rooms: tuple[FloatArray, FloatArray] | None = None
        self._holding: dict[tuple[str, bytes], Mask] = {}
        if not ssn.world.laid_out.keys().isdisjoint(ssn.world.with_pending.keys()):
            self._room_at_open()  # now, before placements of the session reduce it

    # -- how full domains are ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Sum up the nodes of every domain, if any has changed since the last time."""
        table, tree = self._ssn.world.nodes, self._ssn.tree
        at = int(table.cursor[0])
        if at == self._read_at:
            return
        self._read_at = at
        size = len(tree.leaf)
        self._capacity = tree.sums(table.allocatable[:size])
        self._used = self._capacity - tree.sums(table.idle[:size]) + tree.sums(table.pipelined[:size])
        for task in self._evicted.values():
            if task.status == RELEASING and 0 <= task.row < size:
                for domain in tree.chain(int(tree.leaf[task.row])):
                    self._used[domain] -= task.cls.request

    def _room_at_open(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums of idle and of future idle by domain, as of the opening of the session."""
        if self._rooms is None:
            table, tree = self._ssn.world.nodes, self._ssn.tree
            size = len(tree.leaf)
            self._rooms = tree.sums(table.idle[:size]), tree.sums(table.future_idle[:size])
        return self._rooms

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Record evicted tasks, because what they hold counts as free from now on."""
        if tasks[0].status == RELEASING:
            self._evicted.update((task.key, task) for task in tasks)
            self._read_at = -1

    # -- which domains to try ------------------------------------------------------------------------------------------

    def hyper_node_gradient(self, part: Job | SubJob, root: int, purpose: str) -> Sequence[Sequence[int]]:
        """Return the domains within the allowed tier that may hold the part, tier by tier."""
        domains, tree = self._ssn.domains, self._ssn.tree
        limit = domains.limit(part)
        if limit is None:
            return ((root,),)
        layout = part.layout if isinstance(part, Job) else part
        lies = domains.allocated(layout) if layout is not None else NOWHERE
        if lies >= 0:
            root = self._root(root, lies, limit)
            if root < 0:
                return ()
        fits = self._may_hold(part, purpose) if lies < 0 else None
        if not tree.children[root]:
            return ((root,),) if tree.tiers[root] <= limit and (fits is None or fits[root]) else ()
        eligible = tree.inside(root) & (tree.tiers <= limit)
        if fits is not None:
            eligible &= fits
        tiers = np.unique(tree.tiers[eligible]).tolist()
        groups = [np.nonzero(eligible & (tree.tiers == tier))[0].tolist() for tier in tiers]
        return self._cut(groups) if purpose == EVICT else groups

    def _root(self, root: int, lies: int, limit: int) -> int:
        """Return the domain to search for a part that has placed tasks; `NOWHERE` if the limit allows none."""
        tree = self._ssn.tree
        highest = NOWHERE
        for number in tree.chain(lies):
            if tree.tiers[number] > limit:
                break
            highest = number
        if highest < 0:
            return NOWHERE
        common = tree.lca(root, highest)
        return root if common == highest else highest if common == root else NOWHERE

    def _may_hold(self, part: Job | SubJob, purpose: str) -> Mask:
        """Return bool[domains]: those whose sums at the opening of the session cover all that a part waits for.

        Placements since then do not count: a part may start with less than all of its tasks, and whether these have
        room shows when they are placed.
        """
        need = self._least(part)
        key = purpose, need.tobytes()
        found = self._holding.get(key)
        if found is None:
            if purpose == EVICT:
                self._read()
                found = _covers(self._capacity, need)
            else:
                idle, future = self._room_at_open()
                found = _covers(idle, need) | _covers(future, need)
            self._holding[key] = found
        return found

    def _least(self, part: Job | SubJob) -> Vector:
        zeros: Vector = self._ssn.world.dims.zeros()
        if isinstance(part, Job):
            return zeros if part.min_resources is None else part.min_resources
        return part.job.pending_request if part.whole else total_request(part.pending(), zeros)

    def _cut(self, groups: list[list[int]]) -> list[list[int]]:
        left = self.args.max_evict_domains if self.args.max_evict_domains > 0 else _MAX_EVICT_DOMAINS
        out = []
        for group in reversed(groups):
            if left <= 0:
                break
            out.append(group[-left:])
            left -= len(out[-1])
        return out

    # -- which domain is best ------------------------------------------------------------------------------------------

    def hyper_node_order(self, sub: SubJob, domains: Sequence[int], together: bool) -> FloatArray:
        """Prefer the domain that is fullest with the sub-job in it; among equals the one that has most of it."""
        if not domains:
            return np.zeros(0)
        self._read()
        request = total_request(sub.tasks.values(), self._ssn.world.dims.zeros())
        chosen = np.array(domains, np.int64)
        used, capacity = self._used[chosen][:, self._columns], self._capacity[chosen][:, self._columns]
        points = fill_of(used, capacity, request[self._columns].astype(np.float64), self._weights)
        best = points == points.max()
        if together and int(best.sum()) > 1 and sub.tasks:
            points[best] += network.members(self._ssn.tree, sub)[chosen[best]] / len(sub.tasks)
        scaled: FloatArray = points * 100.0 * self.args.weight
        return scaled

    # -- which node is best --------------------------------------------------------------------------------------------

    def watches_pods(self, task: Task) -> bool:
        """False: the kernel itself accounts for what placements change."""
        return False

    def batch_score(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score rows by the domains they lie in."""
        found = self.proximity(task)
        return None if found is None else scores(found, rows)

    def proximity(self, task: Task) -> Proximity | None:
        """Near the rest of its gang for a task with a topology; in the fullest domains for any other."""
        sub = task.sub
        if sub is not None and sub.network is not None:
            search = self._ssn.search
            return self._near(sub, search.near) if search is not None and search.sub is sub else None
        return self._fill(task) if self.args.normal_pods else None

    def _near(self, sub: SubJob, near: int) -> Proximity:
        tree = self._ssn.tree
        lowest, highest = int(tree.tiers.min()), tree.top_tier
        span = highest - lowest
        closeness = (highest - tree.tiers) / span if span else np.ones(len(tree.names))
        inside = network.members(tree, sub)
        nothing, empty = np.zeros(len(tree.names)), np.zeros(0)
        flat = np.zeros((len(tree.names), 0))
        weight = float(self.args.weight)
        total = max(len(sub.tasks), 1)
        return Proximity(
            tree, weight, near, closeness, inside, total, flat, flat, empty, empty, nothing, nothing.copy()
        )

    def _fill(self, task: Task) -> Proximity:
        self._read()
        tree, columns = self._ssn.tree, self._columns
        if self._shares is None:
            self._shares = self._tier_shares()
        shares, absent = self._shares
        asked = task.cls.request[columns].astype(np.float64)
        none, nobody = np.zeros(len(tree.names)), np.zeros(len(tree.names), np.int64)
        used, capacity = self._used[:, columns], np.ascontiguousarray(self._capacity[:, columns])
        weight = float(self.args.weight)
        return Proximity(
            tree, weight, FILL, none, nobody, 1, used.copy(order="C"), capacity, asked, self._weights, shares, absent
        )

    def _tier_shares(self) -> tuple[FloatArray, FloatArray]:
        """Return the weight of each domain's fill, and what tiers without a domain around a node add there."""
        tree, fading = self._ssn.tree, self.args.fading
        whole = _sum_of_powers(fading, int(tree.tiers.min()), tree.top_tier)
        if whole <= 0:
            return np.zeros(len(tree.names)), np.zeros(len(tree.names))
        shares = np.array([_power(fading, int(tier)) / whole for tier in tree.tiers])
        absent = np.zeros(len(tree.names))
        for number in range(len(tree.names)):
            there = {int(tree.tiers[up]) for up in tree.chain(number)}
            absent[number] = max(1.0 - sum(_power(fading, tier) for tier in there) / whole, 0.0)
        return shares, absent


def _power(fading: float, tier: int) -> float:
    """Return the weight of a tier, relative to the first one."""
    return fading ** (tier - 1) if fading > 0 else float(tier <= 1)


def _sum_of_powers(fading: float, lowest: int, highest: int) -> float:
    """Return the sum of the weights of all tiers in a range, in closed form, as tiers may be any numbers."""
    if fading <= 0:
        return float(max(min(highest, 1) - lowest + 1, 0))
    if fading == 1:
        return float(highest - lowest + 1)
    return (_power(fading, lowest) - _power(fading, highest + 1)) / (1 - fading)


def total_request(tasks: Iterable[Task], zeros: Vector) -> Vector:
    """Return Σ requests; one addition per class, not per task."""
    for cls, count in Counter(task.cls for task in tasks).items():
        zeros += cls.request * count
    return zeros


def _covers(sums: FloatArray, need: Vector) -> Mask:
    """Return bool[domains]: whether the sums cover a request."""
    columns = [c for c, amount in enumerate(need.tolist()) if amount > 0 or c < 2]
    out: Mask = np.asarray((need[columns] <= sums[:, columns]).all(axis=1))
    return out
