"""What a terminating namespace still contains, and the conditions that report to users why it is not gone yet.

Source: Kubernetes' namespaced resources deleter: its condition types, reasons and messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"


@dataclass(slots=True)
class Contents:
    """What one round of emptying a namespace found."""

    remaining: Counter[str] = field(default_factory=Counter)
    """Resource (``pods.``, ``jobs.batch.volcano.sh``) → number of remaining objects."""
    finalizers: Counter[str] = field(default_factory=Counter)
    """Finalizer → number of objects that have it."""
    undiscovered: dict[str, str] = field(default_factory=dict)
    """Group version → why its resources could not be discovered."""
    failures: dict[str, str] = field(default_factory=dict)
    """Resource → why its objects could not be listed or deleted."""

    @property
    def is_empty(self) -> bool:
        """Whether the namespace is empty: nothing remains, and no discovery, list or delete has failed."""
        return not (self.remaining or self.undiscovered or self.failures)


def conditions(contents: Contents, known: Mapping[str, tuple[str, str]], now: str) -> list[dict[str, Any]]:
    """Return the conditions of a terminating namespace.

    Args:
        contents: What the last round found.
        known: Type → (status, lastTransitionTime) of the namespace's present conditions.
        now: ``lastTransitionTime`` of conditions whose status changes.
    """
    failed_discovery, failed_deletion = _listed(contents.undiscovered), _listed(contents.failures)
    remaining = ", ".join(
        f"{resource} has {n} resource instances" for resource, n in sorted(contents.remaining.items())
    )
    finalizers = ", ".join(f"{name} in {n} resource instances" for name, n in sorted(contents.finalizers.items()))
    return [
        {
            "type": kind,
            "status": "True" if problem else "False",
            "reason": reason if problem else fine_reason,
            "message": f"{text}{problem}" if problem else fine,
            "lastTransitionTime": _since(known.get(kind), "True" if problem else "False", now),
        }
        for kind, problem, reason, text, fine_reason, fine in (
            (
                "NamespaceDeletionDiscoveryFailure",
                failed_discovery,
                "DiscoveryFailed",
                "Discovery failed for some groups, ",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            (
                _CONTENT_FAILURE,
                failed_deletion,
                "ContentDeletionFailed",
                "Failed to delete all resource types, ",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            (
                "NamespaceContentRemaining",
                remaining,
                "SomeResourcesRemain",
                "Some resources are remaining: ",
                "ContentRemoved",
                "All content successfully removed",
            ),
            (
                "NamespaceFinalizersRemaining",
                finalizers,
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: ",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        )
    ]


def _since(known: tuple[str, str] | None, status: str, now: str) -> str:
    return known[1] if known is not None and known[0] == status and known[1] else now


def _listed(problems: Mapping[str, str]) -> str:
    if not problems:
        return ""
    return f"{len(problems)} remaining: " + ", ".join(f"{name}: {why}" for name, why in sorted(problems.items()))
