"""The listers of the job controller."""

from __future__ import annotations

from dataclasses import dataclass

from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.scheduling import PriorityClass
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.client.informer import Informer


@dataclass(frozen=True, slots=True)
class Listers:
    """The informers whose caches the job controller reads."""

    jobs: Informer[Job]
    pods: Informer[Pod]
    groups: Informer[PodGroup]
    queues: Informer[Queue]
    priorities: Informer[PriorityClass]

    def priority_of(self, name: str) -> int:
        """Return the value of a PriorityClass, 0 when there is none of that name."""
        found = self.priorities.get(Key("", name)) if name else None
        return found.value if found is not None else 0
