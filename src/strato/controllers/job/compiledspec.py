"""What depends on a job's spec alone: computed once and shared by all jobs with an equal spec.

Jobs created by the thousand mostly differ in their names only. Facts for the state machine, policies, plugins and the
PodGroup's spec are therefore computed once for each different spec.
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

CACHED_SPECS: Final = 256
"""Compiled specs cached for new jobs, a few kilobytes each; jobs hold a reference to their own."""


_SMALL: Final = 16
"""Most pods of a job whose plan the executor may carry out together with those of other jobs."""


class DesiredGroup:
    """The desired spec of the PodGroups of jobs with equal specs."""

    __slots__ = ("fits", "raw", "spec", "view")

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        """As builtin types; shared, so read only."""
        self.raw = msgspec.Raw(msgspec.json.encode(spec))
        """The same as encoded JSON, to be sent."""
        self.view = msgspec.json.decode(self.raw, type=PodGroupSpec)
        """The same as the typed view that informers decode."""
        self.fits: PodGroupSpec | None = None
        """The last PodGroup's spec that was compared and matched: compared by identity first."""


class CompiledSpec:
    """See the module. Its values are shared between jobs and read only.

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
        self.policies = JobPolicies(spec.policies, ((t.name, t.policies) for t in spec.tasks))
        self.plugins = JobPlugins(spec.plugins)
        self.element_limit = self.plugins.element_limit
        """Most elements of a job array that may be active at once; 0 is no limit."""
        self.has_dependencies = self.element_limit > 0 or any(t.depends_on is not None for t in spec.tasks)
        """Whether some pods are created only once others have started or ended."""
        self.replicas = {t.name: t.replicas for t in spec.tasks}
        """Wanted pods by task."""
        self.has_common_pods = (
            not spec.plugins
            and not spec.volumes
            and len(self.replicas) == len(spec.tasks)
            and all(task.partition_policy is None for task in spec.tasks)
        )
        """Whether pods of jobs with this spec differ only in their job's name and uid and in their index."""
        self.is_small = self.facts.replicas <= _SMALL and not any(p.computes_long for p in self.plugins.active)
        """Whether the plan of such a job is short enough to be carried out together with other jobs' plans."""
        self._names_priorities = any(t.template.spec.priority_class_name for t in spec.tasks)
        self._groups: tuple[tuple[int, ...], DesiredGroup] | None = None

    def group(self, job: Job, priority_of: PriorityOf) -> DesiredGroup:
        """Return the desired PodGroup spec, computed with the present values of PriorityClasses.

        Args:
            job: Any job with this spec.
            priority_of: Returns the value of a PriorityClass.
        """
        if self._groups is not None and not self._names_priorities:
            return self._groups[1]
        priorities = tuple([priority_of(t.template.spec.priority_class_name) for t in self.spec.tasks])
        if self._groups is None or self._groups[0] != priorities:
            self._groups = priorities, DesiredGroup(group_spec(job, priority_of))
        return self._groups[1]


class CompiledSpecs:
    """The most recently used compiled specs."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], CompiledSpec] = OrderedDict()
        self._last = CompiledSpec(Job())

    def of(self, job: Job) -> CompiledSpec:
        """Return the compiled spec of a job that was just read."""
        spec = job.spec
        if self._last.written is spec:  # the decoder shares one spec between jobs whose specs have equal bytes
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
