"""Which nodes a HyperNode's members name. Pure.

Source: volcano-controllers Part H, Status.
"""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.core import Node
from strato.api.patterns import InvalidPattern, Pattern, compile_pattern
from strato.api.selectors import from_label_selector
from strato.api.volcano.topology import HyperNode


def is_dynamic(hyper_node: HyperNode) -> bool:
    """Return whether adding or deleting nodes may change the count."""
    return any(member.selector.exact_match is None for member in hyper_node.spec.members)


def node_count(hyper_node: HyperNode, nodes: Iterable[Node]) -> int:
    """Return how many distinct names the members select.

    A member that gives an exact name counts even if no such node exists, and so does a child HyperNode.
    """
    names: set[str] = set()
    patterns, selectors = [], []
    for member in hyper_node.spec.members:
        selector = member.selector
        if selector.exact_match is not None:
            names.add(selector.exact_match.name)
        elif selector.regex_match is not None and (pattern := _compiled(selector.regex_match.pattern)) is not None:
            patterns.append(pattern)
        elif selector.label_match is not None:
            wanted = from_label_selector(selector.label_match)
            if not wanted.is_empty:
                selectors.append(wanted)
    if patterns or selectors:
        for node in nodes:
            meta = node.metadata
            if any(p.is_in(meta.name) for p in patterns) or any(s.matches(meta.labels) for s in selectors):
                names.add(meta.name)
    return len(names)


def _compiled(pattern: str) -> Pattern | None:
    try:
        return compile_pattern(pattern)
    except InvalidPattern:
        return None
