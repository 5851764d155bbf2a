"""Inter-pod affinity and anti-affinity: terms compiled for matching, and an index of the rules that select a pod."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from strato.api.core import PodAffinityTerm
from strato.api.selectors import Selector, from_label_selector
from strato.api.shapes import LabelSelector, LabelSelectorRequirement
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.tasks import TaskClass

HARD_WEIGHT: Final = 1
"""Weight of existing pods' required affinity in scoring (Kubernetes' hardPodAffinityWeight)."""


Label = tuple[str, str]


class Term:
    """A pod affinity term, compiled: the pods it selects and its topology key.

    Attributes:
        one_of: Labels one of which every selected pod has; None when the selector implies no such labels.
    """

    __slots__ = ("_namespace_selector", "_namespaces", "_selector", "key", "one_of", "topology_key")

    def __init__(self, term: PodAffinityTerm, owner: Task) -> None:
        selector = _with_label_keys(from_label_selector(term.label_selector), term, owner)
        self._selector = selector
        self.one_of: Collection[Label] | None = selector.one_of
        self._namespace_selector = (
            from_label_selector(term.namespace_selector) if term.namespace_selector is not None else None
        )
        named = frozenset(term.namespaces)
        self._namespaces = named or (frozenset((owner.namespace,)) if self._namespace_selector is None else frozenset())
        self.topology_key = term.topology_key
        self.key = (str(selector), str(self._namespace_selector), self._namespaces)

    def matches(self, task: Task, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether the term selects a pod."""
        if task.namespace not in self._namespaces:
            chosen = self._namespace_selector
            if chosen is None or not chosen.matches(namespaces.get(task.namespace, {})):
                return False
        return self._selector.matches(task.pod.metadata.labels or {})


class AffinityTerms(NamedTuple):
    """The pod affinity terms of a class.

    Attributes:
        together, anti: Required affinity and anti-affinity.
        preferred: Preferred terms with their weights; weights of anti-affinity are negative.
    """

    together: Sequence[Term] = ()
    anti: Sequence[Term] = ()
    preferred: Sequence[tuple[int, Term]] = ()


class AffinityTerm(NamedTuple):
    """A term of a class of pods: required anti-affinity, or a weight for being in the same domain."""

    cls: TaskClass
    labels: Mapping[str, str]
    term: Term
    weight: int = 0
    is_anti: bool = False


class AffinityIndex:
    """Task classes with rules about other pods, and the rules that select a given pod.

    Rules are indexed by a label that they require, so that `about` takes time by the number of the pod's labels and not
    by the number of classes with rules.

    Attributes:
        generation: Grows whenever rules are added or removed.
    """

    def __init__(self) -> None:
        self._members: dict[TaskClass, set[str]] = {}
        self._terms: dict[TaskClass, AffinityTerms] = {}
        self._rules: dict[Label | None, dict[TaskClass, list[AffinityTerm]]] = {}
        self.generation = 0

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, task: Task) -> None:
        """Add a pod of a class that has rules or spread constraints."""
        cls = task.cls
        members = self._members.get(cls)
        if members is None:
            members = self._members[cls] = set()
            terms = self._terms[cls] = _terms_of(task)
            self.generation += any(terms)  # a class may have spread constraints only, which are no rules about others
            for label, rule in _labelled(task, terms):
                self._rules.setdefault(label, {}).setdefault(cls, []).append(rule)
        members.add(task.key)

    def remove(self, task: Task) -> None:
        """Remove a pod, and the rules of its class with the last one."""
        cls = task.cls
        members = self._members[cls]
        members.discard(task.key)
        if members:
            return
        self.generation += any(self._terms[cls])
        for label in {label for label, _ in _labelled(task, self._terms[cls])}:
            del self._rules[label][cls]
            if not self._rules[label]:
                del self._rules[label]
        del self._members[cls], self._terms[cls]

    def terms(self, task: Task) -> AffinityTerms:
        """Return the terms of a pod's class, whose pods are equal in labels and namespace too."""
        return self._terms.get(task.cls, _NO_TERMS)

    def about(self, task: Task, namespaces: Mapping[str, Mapping[str, str]]) -> Iterator[AffinityTerm]:
        """Return the rules of all classes that select a pod."""
        for label in (None, *(task.pod.metadata.labels or {}).items()):
            for rules in self._rules.get(label, _NO_RULES).values():
                for rule in rules:
                    if rule.term.matches(task, namespaces):
                        yield rule


_NO_TERMS: Final = AffinityTerms()
_NO_RULES: Final[Mapping[TaskClass, list[AffinityTerm]]] = {}


def _terms_of(owner: Task) -> AffinityTerms:
    affinity = owner.cls.spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    return AffinityTerms(
        [Term(term, owner) for term in near.required] if near is not None else (),
        [Term(term, owner) for term in apart.required] if apart is not None else (),
        [
            (sign * wish.weight, Term(wish.pod_affinity_term, owner))
            for side, sign in ((near, 1), (apart, -1))
            if side is not None
            for wish in side.preferred
        ],
    )


def _labelled(owner: Task, terms: AffinityTerms) -> Iterator[tuple[Label | None, AffinityTerm]]:
    """Return the rules of a class, each with every label of its ``one_of``, or with None if it has no such labels."""
    cls, labels = owner.cls, owner.pod.metadata.labels or {}
    rules = [AffinityTerm(cls, labels, term, is_anti=True) for term in terms.anti]
    rules += [AffinityTerm(cls, labels, term, HARD_WEIGHT) for term in terms.together]
    rules += [AffinityTerm(cls, labels, term, weight) for weight, term in terms.preferred]
    for rule in rules:
        one_of = rule.term.one_of
        for label in (None,) if one_of is None else one_of:
            yield label, rule


def _with_label_keys(selector: Selector, term: PodAffinityTerm, owner: Task) -> Selector:
    if not term.match_label_keys and not term.mismatch_label_keys:
        return selector
    labels = owner.pod.metadata.labels or {}
    base = term.label_selector or LabelSelector()
    same = {key: labels[key] for key in term.match_label_keys if key in labels}
    other = tuple(
        LabelSelectorRequirement(key=key, operator="NotIn", values=(labels[key],))
        for key in term.mismatch_label_keys
        if key in labels
    )
    return from_label_selector(
        LabelSelector(match_labels={**base.match_labels, **same}, match_expressions=(*base.match_expressions, *other))
    )
