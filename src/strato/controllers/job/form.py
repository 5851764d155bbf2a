"""What follows from a job's spec alone: worked out once, held by every job that has such a spec.

Jobs that come by the thousand mostly differ in their names. The controller then meets equal specs again and again, and
what it finds out about one of them holds for all: facts for the rules, policies, plugins, the spec of the PodGroup.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import msgspec

from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroupSpec
from strato.controllers.job.completion import completed
from strato.controllers.job.group import PriorityOf, group_spec
from strato.controllers.job.plugins.registry import JobPlugins
from strato.controllers.job.policies import JobPolicies
from strato.controllers.job.states import JobFacts, TaskFacts
from strato.controllers.job.terms import DEFAULT_TASK

KEPT_FORMS: Final = 256
"""Forms remembered for jobs to come, a few kilobytes each; jobs keep their own for as long as they need it."""


_SMALL: Final = 16
"""Pods of a job at most whose plan is carried out with those of others."""


class WantedGroup:
    """The PodGroup's spec that jobs of one form want."""

    __slots__ = ("fits", "raw", "spec", "view")

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        """As JSON. Read only."""
        self.raw = msgspec.Raw(msgspec.json.encode(spec))
        """The same as it is sent."""
        self.view = msgspec.json.decode(self.raw, type=PodGroupSpec)
        """The same as it is read."""
        self.fits: PodGroupSpec | None = None
        """The last spec of a PodGroup that was found to be as it should be."""


class JobForm:
    """See the module. What it holds is shared and read only.

    Args:
        job: Any job that has the spec, as it was read.
    """

    __slots__ = (
        "_groups",
        "_names_priorities",
        "facts",
        "has_common_pods",
        "has_dependencies",
        "is_small",
        "plugins",
        "policies",
        "replicas",
        "spec",
        "written",
    )

    def __init__(self, job: Job) -> None:
        self.written = job.spec
        """The spec as it was read."""
        self.spec = spec = completed(job).spec
        """The same with what admission would have filled in."""
        self.facts = JobFacts(
            tasks=tuple(TaskFacts(t.name, t.replicas, t.min_available) for t in spec.tasks),
            min_available=spec.min_available,
            max_retry=spec.max_retry,
            min_success=spec.min_success,
        )
        self.policies = JobPolicies(spec.policies, ((t.name or DEFAULT_TASK, t.policies) for t in spec.tasks))
        self.plugins = JobPlugins(spec.plugins)
        self.has_dependencies = any(t.depends_on is not None for t in spec.tasks)
        """Whether some task waits for another one's pods."""
        self.replicas = {t.name or DEFAULT_TASK: t.replicas for t in spec.tasks}
        """Wanted pods by task."""
        self.has_common_pods = (
            not spec.plugins
            and not spec.volumes
            and len(self.replicas) == len(spec.tasks)
            and all(task.partition_policy is None for task in spec.tasks)
        )
        """Whether pods differ in the names and uids of jobs, and in their indexes, only."""
        self.is_small = self.facts.replicas <= _SMALL and not any(p.computes_long for p in self.plugins.active)
        """Whether a plan for such a job may keep others waiting."""
        self._names_priorities = any(t.template.spec.priority_class_name for t in spec.tasks)
        self._groups: tuple[tuple[int, ...], WantedGroup] | None = None

    def group(self, job: Job, priority_of: PriorityOf) -> WantedGroup:
        """Return what the PodGroup should be, by the priorities that hold now.

        Args:
            job: Any job of this form.
            priority_of: Value of a PriorityClass.
        """
        if self._groups is not None and not self._names_priorities:
            return self._groups[1]
        priorities = tuple([priority_of(t.template.spec.priority_class_name) for t in self.spec.tasks])
        if self._groups is None or self._groups[0] != priorities:
            self._groups = priorities, WantedGroup(group_spec(job, priority_of))
        return self._groups[1]


class JobForms:
    """The forms met lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], JobForm] = OrderedDict()
        self._last = JobForm(Job())

    def of(self, job: Job) -> JobForm:
        """Return the form of a job that was just read."""
        spec = job.spec
        if self._last.written is spec:  # specs that came in the same bytes are one
            return self._last
        first = spec.tasks[0] if spec.tasks else None
        key = (
            spec.queue,
            spec.min_available,
            len(spec.tasks),
            first and (first.name, first.replicas, first.template.spec.priority_class_name),
        )
        form = self._known.get(key)
        if form is not None and form.written == spec:
            self._last = form
            return form
        form = self._last = self._known[key] = JobForm(job)
        if len(self._known) > KEPT_FORMS:
            self._known.popitem(last=False)
        return form
