"""What follows from a job's spec alone: computed once and shared by all jobs with an equal spec.

Jobs created by the thousand mostly differ in their names only. What is computed from one spec holds for all equal ones:
facts for the state machine, policies, plugins, the spec of the PodGroup.
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

CACHED_SPECS: Final = 256
"""Compiled specs cached for new jobs, a few kilobytes each; jobs hold a reference to their own."""


_SMALL: Final = 16
"""Pods at most of a job whose plan is carried out in a batch with those of others."""


class DesiredGroup:
    """The desired spec of the PodGroups of jobs with equal specs."""

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


class CompiledSpec:
    """See the module. What it holds is shared and read only.

    Args:
        job: Any job that has the spec, as it was read.
    """

    __slots__ = (
        "_groups",
        "_names_priorities",
        "element_limit",
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
        self.element_limit = self.plugins.element_limit
        """Elements of a job array that may be active at once; 0 is all."""
        self.has_dependencies = self.element_limit > 0 or any(t.depends_on is not None for t in spec.tasks)
        """Whether some pods are created only after others have changed."""
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
        """Whether the plan of such a job is short enough to be carried out in a batch with others."""
        self._names_priorities = any(t.template.spec.priority_class_name for t in spec.tasks)
        self._groups: tuple[tuple[int, ...], DesiredGroup] | None = None

    def group(self, job: Job, priority_of: PriorityOf) -> DesiredGroup:
        """Return what the PodGroup should be, by the priorities that hold now.

        Args:
            job: Any job with this spec.
            priority_of: Value of a PriorityClass.
        """
        if self._groups is not None and not self._names_priorities:
            return self._groups[1]
        priorities = tuple([priority_of(t.template.spec.priority_class_name) for t in self.spec.tasks])
        if self._groups is None or self._groups[0] != priorities:
            self._groups = priorities, DesiredGroup(group_spec(job, priority_of))
        return self._groups[1]


class CompiledSpecs:
    """The compiled specs used lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], CompiledSpec] = OrderedDict()
        self._last = CompiledSpec(Job())

    def of(self, job: Job) -> CompiledSpec:
        """Return the compiled spec of a job that was just read."""
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
        compiled = self._known.get(key)
        if compiled is not None and compiled.written == spec:
            self._last = compiled
            return compiled
        compiled = self._last = self._known[key] = CompiledSpec(job)
        if len(self._known) > CACHED_SPECS:
            self._known.popitem(last=False)
        return compiled
