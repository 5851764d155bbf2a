"""yarncapacity: share among queues and applications as YARN's Capacity Scheduler does (spec yarn, parts B and C).

Queues are ordered level by level by their parents' policies, jobs by their queue's policy. No allocation exceeds the
maximum of a queue or of its ancestors, or a user limit; applications over a limit wait. If the file enables preemption,
pods of queues above their ideal assignment are marked, and evicted after the wait when a job entitled to more preempts.
The decisions themselves are in `strato.interop.yarn.capacity`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strato.errors import InvalidInput
from strato.interop.yarn.capacity.autocreation import QueueCatalogue
from strato.interop.yarn.capacity.configuration import CapacityConfiguration
from strato.interop.yarn.capacityplugin.limits import Limits, WaitReason
from strato.interop.yarn.capacityplugin.mirror import ApplicationUse, Mirror, QueueUse
from strato.interop.yarn.capacityplugin.preemption import CapacityPreemption, Remembered
from strato.interop.yarn.capacityplugin.source import file_source, read_file, scaled, with_queues
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.hadoopxml import HEARTBEAT
from strato.interop.yarn.locality import HEARTBEAT_MS, RACK_LABEL, Allowed, LocalityDelay, Waited
from strato.interop.yarn.objects import path_of
from strato.interop.yarn.resources import LEAST, Amounts, subtract
from strato.interop.yarn.sharing import NO_LEAF, SharingPlugin, SharingTree, both
from strato.interop.yarn.units import resource_pairs
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, REJECT
from strato.scheduler.model.answers import StaticScore, Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.plan import Failure
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason
from strato.scheduler.plugins.proportion import QueueFacts

GUARANTEE = "Guarantee"
"""Code of a verdict, besides those of `limits` and `sharing`."""
OTHER_PARTITION = Reason("yarncapacity", "node(s) belong to another partition", curable=False)
QUEUE_FULL = Reason("yarncapacity", "node(s) are in a partition where the queue has its maximum")


def _properties(value: Any) -> dict[str, str]:
    """Read a mapping of properties; numbers and switches are as good as text."""
    if not isinstance(value, Mapping):
        raise ValueError("expected properties by name")
    return {str(name): str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}


def _names(value: Any) -> frozenset[str]:
    """Read ``a, b``."""
    if not isinstance(value, str):
        raise ValueError("expected names, with commas between")
    return frozenset(name.strip() for name in value.split(",") if name.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnCapacityArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    file: str = arg("yarncapacity.file", "capacity-scheduler.xml")
    """Path of a ``capacity-scheduler.xml``, read again when it changes; one that cannot be read changes nothing."""
    properties: Mapping[str, str] = arg("yarncapacity.properties", {}, read=_properties)
    """Properties of ``yarn-site.xml`` that count too, by name; those of the file win. Default: none."""
    resources: Mapping[str, str] = arg("yarncapacity.resources", {}, read=resource_pairs)
    """Kubernetes' names of further resource types: ``gpu=nvidia.com/gpu``. Default: memory and vcores alone."""
    user: str = arg("yarncapacity.userKey", "")
    """Label or annotation of a PodGroup that names its user. Default: its namespace is the user."""
    master: str = arg("yarncapacity.amLabel", "")
    """Label ``key=value`` (or ``key``) of pods that are application masters. Default: none, AM limits are inert."""
    node_label: str = arg("yarncapacity.nodeLabelKey", "")
    """Key of the node label whose value is a node's partition. Default: none, all nodes are one partition."""
    shared: frozenset[str] = arg("yarncapacity.sharedLabels", frozenset(), read=_names)
    """Partitions that are not exclusive: pods without a label may use them while they are idle. Default: none."""
    reservations: bool = arg("yarncapacity.reservations", True)
    """Whether nodes are reserved for pods that fit nowhere yet. Default true, as in YARN."""
    rack_label: str = arg("yarncapacity.rackLabel", RACK_LABEL)
    """Key of the node label whose value is a node's rack."""


class YarnCapacity(SharingPlugin[QueueUse, CapacityPreemption, Remembered]):
    """Share as YARN's Capacity Scheduler does."""

    name = "yarncapacity"
    args_type = YarnCapacityArgs
    standing_code = GUARANTEE
    remembers = Remembered

    @classmethod
    def contradictions(cls, args: YarnCapacityArgs) -> Sequence[tuple[str, str]]:
        """Refuse a file that cannot be read, and shared labels without a key."""
        found: list[tuple[str, str]] = []
        try:
            read_file(Path(args.file), args.resources, args.properties)
        except InvalidInput as error:
            found += [("yarncapacity.file", f"{error.what}: {p.where}: {p.message}") for p in error.problems]
        heartbeat = args.properties.get(HEARTBEAT, str(HEARTBEAT_MS))
        if not heartbeat.isdecimal() or len(heartbeat) > 9 or not int(heartbeat):
            found.append(("yarncapacity.properties", f"{HEARTBEAT}: {heartbeat[:40]!r}: expected milliseconds above 0"))
        if args.shared and not args.node_label:
            found.append(("yarncapacity.sharedLabels", "needs yarncapacity.nodeLabelKey, which names the node label"))
        return found

    def _grow(self) -> SharingTree[QueueUse]:
        self._mirror = Mirror(self._ssn.world, self._units, self._configuration(), self.args.node_label, self._user_of)
        self._limits = Limits(self._mirror, self._is_master, self.args.shared)
        return self._mirror

    def open(self, ssn: CycleContext) -> None:
        """Read the configuration, and build the cycle's tree."""
        super().open(ssn)
        for held in self._reservations:
            self._mirror.reserve(held.task, held.row)

    def _configuration(self) -> CapacityConfiguration:
        memory = self._ssn.world.plugin_state
        key = f"{self.name} {self.args.file} {sorted(self.args.properties.items())}"
        made = file_source(Path(self.args.file), self.args.resources, self.args.properties)
        source: FollowedFile[QueueCatalogue] = memory.setdefault(key, made)
        if source.refresh(self._ssn.now) and source.content is not None:
            self._ssn.plan.failures.append(Failure(self.name, "open", source.problem))
        if source.content is None:
            raise RuntimeError(source.problem)
        paths = [path_of(queue) for queue in self._ssn.world.queues.values() if queue.view is not None]
        source.content = with_queues(source.content, sorted(paths))
        return scaled(source.content, self._units)

    # -- limits --------------------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> int:
        """Whether the limits of its queue admit a job."""
        if job.queue is None:
            return ABSTAIN
        application = self._mirror.applications.get(job.key)
        if application is None:
            self._say(job, NO_LEAF, self._no_leaf(job.queue))
            return REJECT
        return REJECT if self._refused(job, self._limits.refusal(application)) else PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the job as admitted, and its user as active."""
        self._mirror.let_in(job)

    def _refused(self, job: Job, refusal: WaitReason | None) -> bool:
        if refusal is not None:
            self._say(job, refusal.code, refusal.text)
        return refusal is not None

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Tasks that still fit into the maxima up the tree and the user limit; none of an application that waits."""
        job = task.job
        application = self._mirror.applications.get(job.key) if job is not None else None
        if application is None or job is None:
            if job is not None:
                self._say(job, NO_LEAF, self._no_leaf(queue))
            return 0
        if self._refused(job, self._limits.refusal(application)):
            return 0
        fitting, refusal = self._limits.how_many(application, task, count)
        self._refused(job, refusal)
        return fitting

    # -- partitions ----------------------------------------------------------------------------------------------------

    def _partition(self, task: Task) -> str:
        """Return the partition that a task asks for, by its queue's default too."""
        application = self._application(task)
        return self._mirror.partition_for(task, application.leaf) if application is not None else ""

    def facet(self, task: Task) -> Hashable:
        """The partition that a task requests, and the nodes that it may use by now."""
        return self._partition(task), super().facet(task)

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes of the requested partition; for tasks without a label the shared ones too."""
        near = super().filter_facet(task, nodes, rows)
        if not self.args.node_label:
            return near
        asked = self._partition(task)
        allowed = {asked, *(self.args.shared if asked == "" else ())}
        others = np.array([self._mirror.partition_of(row) not in allowed for row in rows.tolist()], np.bool_)
        return both(Verdicts.reject_where(others, OTHER_PARTITION), near)

    def score_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Nodes of the partition itself before shared ones."""
        if not self.args.shared or self._partition(task) != "":
            return ()
        own = np.array([float(self._mirror.partition_of(row) == "") for row in rows.tolist()])
        return (StaticScore(own * 100.0, 1000, normalise=False),)

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """No nodes reserved for others; without a label only shared ones once the queue is at its maximum elsewhere."""
        return both(self._reservations.verdicts(task, rows), self._only_shared(task, rows))

    def _only_shared(self, task: Task, rows: Rows) -> Verdicts | None:
        application = self._application(task)
        if application is None or not self._may_spill(task):
            return None
        need = self._mirror.size_of(task)
        for queue in application.leaf.lineage():
            used = queue.used.get("", self._mirror.zero)
            if self._limits.fitting(subtract(queue.capacity[""].effective_maximum, used), need, 1) < 1:
                own = np.array([self._mirror.partition_of(row) == "" for row in rows.tolist()], np.bool_)
                return Verdicts.reject_where(own, QUEUE_FULL)
        return None

    def watches_pods(self, task: Task) -> bool:
        """Whether nodes are reserved, or the task may go to shared partitions: then it is placed by itself."""
        return self._may_spill(task) or super().watches_pods(task)

    def _may_spill(self, task: Task) -> bool:
        return bool(self.args.shared) and self._partition(task) == ""

    def _application(self, task: Task) -> ApplicationUse | None:
        return self._mirror.applications.get(task.job.key) if task.job is not None else None

    # -- delay scheduling ----------------------------------------------------------------------------------------------

    def _locality_delay(self) -> LocalityDelay | None:
        delay = self._mirror.configuration.node_locality_delay
        return self._after if delay is not None and delay >= 0 else None

    def _after(self, waited: Waited) -> Allowed:
        """Return where a pod may be placed after a wait; the waits for racks and for all nodes run in parallel."""
        configuration = self._mirror.configuration
        node, rack = configuration.node_locality_delay or 0, configuration.rack_locality_delay
        interval = int(self.args.properties.get(HEARTBEAT, HEARTBEAT_MS)) / 1000
        missed = waited.nodes * waited.seconds / interval
        if rack >= 0:
            limit = float(min(waited.nodes, node + rack))
        else:
            limit = waited.containers * min(1.0, waited.named / max(1, waited.nodes))
        return Allowed(missed > min(waited.nodes, node), missed > limit)

    def _looks_on_with_reservation(self) -> bool:
        return self._mirror.configuration.looks_on_with_reservation

    def _may_keep(self, job: Job, task: Task) -> bool:
        application = self._mirror.applications.get(job.key)
        return self.args.reservations and application is not None and application.is_active

    def _reserve(self, job: Job, task: Task) -> bool:
        application = self._mirror.applications.get(job.key)
        if application is None or not self._may_keep(job, task) or not self._limits.may_reserve(application, task):
            return False
        least = self._vector(self._units.scaled_amounts(LEAST))  # a node with less free fits no container
        held = self._reservations.reserve(task, least=least)
        if held is not None:
            self._mirror.reserve(task, held.row)
        return held is not None

    def _make_room(self) -> CapacityPreemption | None:
        if not self._mirror.configuration.preemption_enabled:
            return None
        return CapacityPreemption(
            self._mirror, self._kept, self._ssn.now, self._is_master, self.args.shared, self._reservations
        )

    # -- the end of a cycle --------------------------------------------------------------------------------------------

    def _facts(self, leaf: QueueUse) -> QueueFacts:
        used = self._mirror.used_capacity(leaf)
        numbers = leaf.capacity[""]
        amounts = {"deserved": numbers.effective_minimum, "capacity": numbers.effective_maximum}
        return QueueFacts(
            deserved=self._units.wire(numbers.effective_minimum, self._ssn.world.dims),
            share=used,
            overused=used > 1,
            weight=max(numbers.weight, 0.0),
            vectors={name: self._vector(each) for name, each in amounts.items()},
        )

    # -- words ---------------------------------------------------------------------------------------------------------

    def _no_leaf(self, queue: Queue) -> str:
        return f"queue {queue.name} is no leaf of {self.args.file}; name one that holds applications"

    def _standing(self, leaf: QueueUse, job: Job) -> str:
        application = self._mirror.applications.get(job.key)
        if application is None or not application.is_active:
            return ""
        numbers = leaf.capacity[""]
        used: Amounts = leaf.used.get("", self._mirror.zero)
        percent = 100 * self._mirror.used_capacity(leaf)
        words = [self._units.text(amounts) for amounts in (used, numbers.effective_minimum, numbers.effective_maximum)]
        if not self._mirror.configuration.is_dominant:
            words = [text.partition(",")[0] for text in words]
        return f"queue {leaf.path} uses {percent:.0f} % of its guarantee ({words[0]} of {words[1]}, at most {words[2]})"
