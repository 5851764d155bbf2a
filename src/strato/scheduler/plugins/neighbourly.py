"""Kubernetes' rules about other pods, inter-pod affinity and topology spread, evaluated on arrays over rows.

`predicates` filters by them, `nodeorder` scores by them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from strato.api.core import TopologySpreadConstraint
from strato.api.selectors import from_label_selector
from strato.api.shapes import LabelSelector
from strato.scheduler.cache.affinity import Term
from strato.scheduler.cache.world import World
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Mask, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import TaskClass

EXISTING_ANTI = Reason("predicates", "node(s) didn't satisfy existing pods anti-affinity rules")
AFFINITY = Reason("predicates", "node(s) didn't match pod affinity rules", curable=False)
ANTI = Reason("predicates", "node(s) didn't match pod anti-affinity rules")
SPREAD = Reason("predicates", "node(s) didn't match pod topology spread constraints")
NO_LABEL = Reason("predicates", "node(s) didn't match pod topology spread constraints (missing required label)", False)


def concerns(world: World, task: Task) -> bool:
    """Whether rules of this pod, or of others about it, make its place depend on other pods."""
    return task.cls.pairwise or world.has_rules_about(task)


def filter_affinity(world: World, task: Task, rows: Rows) -> Verdicts:
    """Judge rows by inter-pod affinity and anti-affinity."""
    codes = np.zeros(len(rows), np.uint16)
    neighbours, size = world.neighbours, world.nodes.size
    for rule in world.affinity.about(task, world.namespaces):
        if rule.is_anti:
            taken = neighbours.per_domain(rule.term.topology_key, neighbours.members(rule.cls, rule.labels)) > 0
            codes[taken[rows] & (codes == 0)] = 1
    mine = world.affinity.terms(task)
    if mine.together:
        counts = _matching_all(world, mine.together)
        ok = np.ones(size, np.bool_)
        for term in mine.together:
            ok &= neighbours.per_domain(term.topology_key, counts) > 0
        if not counts.any() and all(term.matches(task, world.namespaces) for term in mine.together):
            ok = np.ones(size, np.bool_)  # the first pod of a group with affinity to itself may go anywhere
            for term in mine.together:
                ok &= neighbours.domains(term.topology_key)[0] >= 0
        codes[~ok[rows] & (codes == 0)] = 2
    for term in mine.anti:
        taken = neighbours.per_domain(term.topology_key, _matching(world, term)) > 0
        codes[taken[rows] & (codes == 0)] = 3
    return Verdicts(codes, (EXISTING_ANTI, AFFINITY, ANTI))


def _matching(world: World, term: Term) -> npt.NDArray[np.int64]:
    return world.neighbours.counts(term.key, lambda other: term.matches(other, world.namespaces), term.one_of)


def _matching_all(world: World, terms: Sequence[Term]) -> npt.NDArray[np.int64]:
    """Count the pods that all terms select; as in Kubernetes, only these count for each term."""
    key = tuple(term.key for term in terms)
    one_of = next((term.one_of for term in terms if term.one_of is not None), None)
    return world.neighbours.counts(
        key, lambda other: all(term.matches(other, world.namespaces) for term in terms), one_of
    )


def score_affinity(world: World, task: Task, rows: Rows) -> FloatArray | None:
    """Score candidate rows by preferences of the task and of the pods there, scaled to [0, 100]."""
    raw = np.zeros(world.nodes.size)
    neighbours, spoken = world.neighbours, False
    for weight, term in world.affinity.terms(task).preferred:
        spoken = True
        raw += weight * neighbours.per_domain(term.topology_key, _matching(world, term))
    for rule in world.affinity.about(task, world.namespaces):
        if not rule.is_anti:
            spoken = True
            raw += rule.weight * neighbours.per_domain(
                rule.term.topology_key, neighbours.members(rule.cls, rule.labels)
            )
    if not spoken:
        return None
    mine = raw[rows]
    low, high = mine.min(), mine.max()
    if high == low:
        return np.zeros(len(rows))
    points: FloatArray = np.floor(100.0 * (mine - low) / (high - low))
    return points


# -- topology spread ---------------------------------------------------------------------------------------------------


def _constraints(cls: TaskClass, action: str) -> Sequence[TopologySpreadConstraint]:
    return [c for c in cls.spec.topology_spread_constraints if c.when_unsatisfiable == action]


def _spread_counts(world: World, task: Task, constraint: TopologySpreadConstraint) -> npt.NDArray[np.int64]:
    base = constraint.label_selector or LabelSelector()
    labels = task.pod.metadata.labels or {}
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    wanted = LabelSelector(match_labels={**base.match_labels, **same}, match_expressions=base.match_expressions)
    selector = from_label_selector(wanted if constraint.label_selector is not None or same else None)
    namespace = task.namespace

    def matches(other: Task) -> bool:
        meta = other.pod.metadata
        return meta.deletion_timestamp is None and other.namespace == namespace and selector.matches(meta.labels or {})

    return world.neighbours.counts(("spread", str(selector), namespace), matches, selector.one_of)


def _matches_itself(task: Task, constraint: TopologySpreadConstraint) -> bool:
    return from_label_selector(constraint.label_selector).matches(task.pod.metadata.labels or {})


def _counted_rows(world: World, task: Task, constraint: TopologySpreadConstraint) -> Mask:
    """Return the rows whose pods and domains a constraint counts (its node inclusion policies)."""
    mask = world.nodes.present[: world.nodes.size].copy()
    if constraint.node_affinity_policy != "Ignore":
        mask &= world.labels.eligible(task.cls.spec)
    if constraint.node_taints_policy == "Honor":
        mask &= world.labels.tolerated(task.cls.spec.tolerations)
    return mask


def filter_spread(world: World, task: Task, rows: Rows) -> Verdicts | None:
    """Judge rows by the hard spread constraints."""
    constraints = _constraints(task.cls, "DoNotSchedule")
    if not constraints:
        return None
    codes = np.zeros(len(rows), np.uint16)
    neighbours = world.neighbours
    has_all = np.ones(world.nodes.size, np.bool_)
    for constraint in constraints:
        has_all &= neighbours.domains(constraint.topology_key)[0] >= 0
    for constraint in constraints:
        domains, many = neighbours.domains(constraint.topology_key)
        inside = has_all & _counted_rows(world, task, constraint)
        counts = _spread_counts(world, task, constraint)
        sums = np.bincount(domains[inside], weights=counts[inside].astype(np.float64), minlength=max(many, 1))
        there = np.bincount(domains[inside], minlength=max(many, 1)) > 0
        least = float(sums[there].min()) if there.any() else 0.0
        if constraint.min_domains is not None and int(there.sum()) < constraint.min_domains:
            least = 0.0
        mine = 1 if _matches_itself(task, constraint) else 0
        at = domains[rows]
        codes[(at < 0) & (codes == 0)] = 2
        over = np.zeros(len(rows), np.bool_)
        over[at >= 0] = sums[at[at >= 0]] + mine - least > constraint.max_skew
        codes[over & (codes == 0)] = 1
    return Verdicts(codes, (SPREAD, NO_LABEL))


def score_spread(world: World, task: Task, rows: Rows) -> FloatArray | None:
    """Score candidate rows by the soft spread constraints; fewer matching pods in the domain are better."""
    constraints = _constraints(task.cls, "ScheduleAnyway")
    if not constraints or not len(rows):
        return None
    neighbours = world.neighbours
    has_all = np.ones(world.nodes.size, np.bool_)
    for constraint in constraints:
        has_all &= neighbours.domains(constraint.topology_key)[0] >= 0
    ignored = ~has_all[rows]
    raw = np.zeros(len(rows))
    for constraint in constraints:
        at = neighbours.domains(constraint.topology_key)[0][rows]
        weight = math.log(len(set(at[~ignored].tolist())) + 2)
        counted = has_all & _counted_rows(world, task, constraint)
        counts = np.where(counted, _spread_counts(world, task, constraint), 0)
        there = neighbours.per_domain(constraint.topology_key, counts)[rows]
        raw += there * weight + (constraint.max_skew - 1)
    raw = np.floor(raw + 0.5)
    seen = raw[~ignored]
    if not seen.size:
        return np.zeros(len(rows))
    low, high = seen.min(), seen.max()
    if high == 0:
        return np.where(ignored, 0.0, 100.0)
    points: FloatArray = np.where(ignored, 0.0, np.floor(100.0 * (high + low - raw) / high))
    return points
