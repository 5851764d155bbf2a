"""yarncapacity: share among queues and applications as YARN's Capacity Scheduler does (spec yarn, parts B and C).

Queues come level by level in the order of their parents' policies, jobs in that of their queue's; nothing goes over a
maximum up the tree or over a user limit; applications over a limit wait. With the file's preemption on, pods of queues
beyond their ideal share are marked, and go after the wait when somebody who is owed room asks for it. What it decides
with is in `strato.interop.yarn.capacity`.
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
from strato.interop.yarn.capacityplugin.limits import Limits, Refusal
from strato.interop.yarn.capacityplugin.making_room import MakingRoom, Remembered
from strato.interop.yarn.capacityplugin.mirror import ApplicationUse, Mirror, QueueUse
from strato.interop.yarn.capacityplugin.source import file_source, read_file, scaled, with_queues
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.objects import is_master, path_of, user_of
from strato.interop.yarn.resources import Amounts
from strato.interop.yarn.units import Units, resource_pairs
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, REJECT, Plugin
from strato.scheduler.model.answers import StaticScore, Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.plan import Failure
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason, Verdict
from strato.scheduler.plugins.proportion import QueueFacts

NO_LEAF = "NoLeafQueue"
GUARANTEE = "Guarantee"
MARKED = "MakingRoom"
"""Codes of its verdicts, besides those of `limits`."""
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


class YarnCapacity(Plugin):
    """Share as YARN's Capacity Scheduler does."""

    name = "yarncapacity"
    args_type = YarnCapacityArgs
    time_based = True

    @classmethod
    def contradictions(cls, args: YarnCapacityArgs) -> Sequence[tuple[str, str]]:
        """Refuse a file that cannot be read, and shared labels without a key."""
        found: list[tuple[str, str]] = []
        try:
            read_file(Path(args.file), args.resources, args.properties)
        except InvalidInput as error:
            found += [("yarncapacity.file", f"{error.what}: {p.where}: {p.message}") for p in error.problems]
        if args.shared and not args.node_label:
            found.append(("yarncapacity.sharedLabels", "needs yarncapacity.nodeLabelKey, which names the node label"))
        return found

    def resources(self) -> Sequence[str]:
        """Name the resources of further types."""
        return tuple(self.args.resources.values())

    def open(self, ssn: CycleContext) -> None:
        """Read the configuration and count who has what."""
        self._ssn = ssn
        self.hierarchy = True  # placing for one queue moves those that share ancestors with it
        self._noted: set[tuple[str, str]] = set()
        self._units = Units.of(ssn.world.dims, self.args.resources)
        self._mirror = Mirror(ssn.world, self._units, self._configuration(), self.args.node_label, self._user_of)
        self._limits = Limits(self._mirror, self._is_master, self.args.shared)
        self._room: MakingRoom | None = None

    def _configuration(self) -> CapacityConfiguration:
        memory = self._ssn.world.memory
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

    def _user_of(self, job: Job) -> str:
        return user_of(job, self.args.user)

    def _is_master(self, task: Task) -> bool:
        return is_master(task, self.args.master)

    # -- order ---------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """Level by level from the root, by the policy of each parent; queues that are no leaves come last."""
        leaf = self._mirror.leaf(queue)
        return (0, self._mirror.position_of(leaf)) if leaf is not None else (1,)

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """By the policy of the job's queue; those that are let in first."""
        application = self._mirror.applications.get(job.key)
        if application is None:
            return (2,)
        return int(not application.is_active), self._mirror.position_in_leaf(application)

    # -- limits --------------------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> int:
        """Whether its queue lets a job in."""
        if job.queue is None:
            return ABSTAIN
        application = self._mirror.applications.get(job.key)
        if application is None:
            self._say(job, NO_LEAF, self._no_leaf(job.queue))
            return REJECT
        return REJECT if self._refused(job, self._limits.refusal(application)) else PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the job among those that were let in, and its user among those who want something."""
        self._mirror.let_in(job)

    def _refused(self, job: Job, refusal: Refusal | None) -> bool:
        if refusal is not None:
            self._say(job, refusal.code, refusal.text)
        return refusal is not None

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Tasks that maxima up the tree and the user limit still hold; none of an application that waits."""
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

    def facet(self, task: Task) -> Hashable:
        """The partition that a task asks for, by its queue's default too."""
        application = self._application(task)
        return self._mirror.partition_for(task, application.leaf) if application is not None else ""

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Nodes of the partition that is asked for; without a label the shared ones too."""
        if not self.args.node_label:
            return None
        asked = self.facet(task)
        allowed = {asked, *(self.args.shared if asked == "" else ())}
        others = np.array([self._mirror.partition_of(row) not in allowed for row in rows.tolist()], np.bool_)
        return Verdicts.reject_where(others, OTHER_PARTITION)

    def score_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Nodes of the partition itself before shared ones."""
        if not self.args.shared or self.facet(task) != "":
            return ()
        own = np.array([float(self._mirror.partition_of(row) == "") for row in rows.tolist()])
        return (StaticScore(own * 100.0, 1000, normalise=False),)

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Without a label: only shared nodes once the queue has its maximum of the others."""
        application = self._application(task)
        if application is None or not self.watches_pods(task):
            return None
        need = self._mirror.size_of(task)
        for queue in application.leaf.lineage():
            free = tuple(
                most - used
                for most, used in zip(
                    queue.capacity[""].effective_maximum, queue.used.get("", self._mirror.zero), strict=True
                )
            )
            if self._limits.fitting(free, need, 1) < 1:
                own = np.array([self._mirror.partition_of(row) == "" for row in rows.tolist()], np.bool_)
                return Verdicts.reject_where(own, QUEUE_FULL)
        return None

    def watches_pods(self, task: Task) -> bool:
        """Only tasks without a label, where there are shared partitions, are placed one by one."""
        return bool(self.args.shared) and self.facet(task) == ""

    def _application(self, task: Task) -> ApplicationUse | None:
        return self._mirror.applications.get(task.job.key) if task.job is not None else None

    # -- making room ---------------------------------------------------------------------------------------------------

    @property
    def _making_room(self) -> MakingRoom | None:
        """Preemption, worked out when it is first asked for in a cycle: after what fits was placed."""
        if self._room is None and self._mirror.configuration.preemption_enabled:
            memory = self._ssn.world.memory.setdefault(self.name, Remembered())
            self._room = MakingRoom(self._mirror, memory, self._ssn.now, self._is_master, self.args.shared)
        return self._room

    def job_starving(self, job: Job) -> bool:
        """Whether others are to make room for a job."""
        room = self._making_room
        return room is not None and room.starves(job)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether others are to make room for these tasks."""
        room = self._making_room
        return room is not None and any(task.job is not None and room.starves(task.job) for task in tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Marked tasks of the queue whose wait is over."""
        return self._victims(preemptor, candidates, within=True)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Marked tasks of other queues whose wait is over."""
        return self._victims(reclaimer, candidates, within=False)

    def _victims(self, owed: Task, candidates: Sequence[Task], *, within: bool) -> tuple[Sequence[Task], int]:
        room = self._making_room
        if room is None or owed.job is None:
            return (), REJECT
        return room.victims(owed.job, candidates, within=within), PERMIT

    # -- what changes, and what is left behind -------------------------------------------------------------------------

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count a job's pods again."""
        self._mirror.refresh(job)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count a job's pods again."""
        self._mirror.refresh(job)

    def close(self, ssn: CycleContext) -> None:
        """Say how queues of waiting applications stand, and leave guarantees for status and metrics."""
        room = self._making_room
        marked = room.marked()[:5] if room is not None else []
        for key in list(ssn.notes):
            application, job = self._mirror.applications.get(key), ssn.world.jobs.get(key)
            if application is None or job is None or not job.pending:
                continue
            if application.is_active:
                self._say(job, GUARANTEE, self._standing(application.leaf))
            if room is not None and room.starves(job):
                for pod, seconds in marked:
                    self._say(job, MARKED, f"pod {pod} is to make room and may go in {seconds:.0f} s")
        for queue in ssn.world.queues.values():
            leaf = self._mirror.leaf(queue) if queue.view is not None and queue.jobs else None
            if leaf is not None:
                ssn.queue_facts[queue.name] = self._facts(leaf)

    def _facts(self, leaf: QueueUse) -> QueueFacts:
        dims = self._ssn.world.dims
        used = self._mirror.used_capacity(leaf)
        numbers = leaf.capacity[""]
        vectors = {}
        for name, amounts in (("deserved", numbers.effective_minimum), ("capacity", numbers.effective_maximum)):
            vector = dims.zeros()
            for at, amount, per in zip(self._units.columns, amounts, self._units.per_column, strict=True):
                vector[at] = amount * per
            vectors[name] = vector
        return QueueFacts(
            deserved=self._units.wire(numbers.effective_minimum, dims),
            share=used,
            overused=used > 1,
            weight=max(numbers.weight, 0.0),
            vectors=vectors,
        )

    # -- words ---------------------------------------------------------------------------------------------------------

    def _say(self, job: Job, code: str, text: str) -> None:
        if (job.key, text) not in self._noted:
            self._noted.add((job.key, text))
            self._ssn.record_verdict(job, Verdict(self.name, code, text))

    def _no_leaf(self, queue: Queue) -> str:
        return f"queue {queue.name} is no leaf of {self.args.file}; name one that holds applications"

    def _standing(self, leaf: QueueUse) -> str:
        numbers = leaf.capacity[""]
        used: Amounts = leaf.used.get("", self._mirror.zero)
        percent = 100 * self._mirror.used_capacity(leaf)
        words = [self._units.text(amounts) for amounts in (used, numbers.effective_minimum, numbers.effective_maximum)]
        if not self._mirror.configuration.is_dominant:
            words = [text.partition(",")[0] for text in words]
        return f"queue {leaf.path} uses {percent:.0f} % of its guarantee ({words[0]} of {words[1]}, at most {words[2]})"
