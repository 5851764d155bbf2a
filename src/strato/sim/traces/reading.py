"""What all readers of traces share: the options of a reading, names, queues, and what was found so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from strato.errors import UsageError
from strato.node.shapes import GPU, NodeShape
from strato.sim.traces.cells import Line, Names, QueueNames
from strato.sim.traces.input import InputFile
from strato.sim.traces.oddities import Oddities
from strato.sim.workloads.jobs import Trace, TraceJob, from_zero, in_circles, only_known

MOST_JOBS = 20_000_000
MOST_NODES = 1_000_000
QUEUE_FIELDS = ("queue", "user", "group")
"""What queues can be made of; each format has some of these."""
GPU_MODEL = "nvidia.com/gpu.product"
"""Label of nodes, as NVIDIA's feature discovery names it: the model of their GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a trace is read."""

    queue_by: str = ""
    """``queue``, ``user`` or ``group``: what makes a job's queue; empty is what the format does by itself."""
    limit: int = 0
    """Only the first so many jobs by submission; 0 is all."""
    strict: bool = False
    """Whether a line that cannot be read is an error; if not it is skipped, counted and named."""
    format: str = ""
    """Name of the format; empty recognises it by content."""


@dataclass(slots=True)
class Reading:
    """One reading: readers add to it."""

    options: ReadOptions
    odd: Oddities
    jobs: list[TraceJob] = field(default_factory=list)
    nodes: list[NodeShape] = field(default_factory=list)
    names: Names = field(default_factory=lambda: Names("job"))
    queues: QueueNames = field(default_factory=QueueNames)

    def add(self, job: TraceJob) -> None:
        """Take a job.

        Raises:
            UsageError: There are too many.
        """
        self.jobs.append(job)
        if len(self.jobs) > MOST_JOBS:
            raise UsageError(f"the trace holds more than {MOST_JOBS:,} jobs; cut it into parts")

    def add_nodes(self, shape: NodeShape) -> None:
        """Take a machine, or several that are equal.

        Raises:
            UsageError: There are too many.
        """
        self.nodes.append(shape)
        if len(self.nodes) > MOST_NODES or shape.count > MOST_NODES:
            raise UsageError(f"the trace names more than {MOST_NODES:,} machines")

    def queue(self, default: str = "queue", **fields: str) -> str:
        """Return the name of a job's queue.

        Args:
            default: The field that makes queues where nobody asks for one; empty is none.
            fields: What the trace knows of ``queue``, ``user`` and ``group``.
        """
        return self.queues.of(fields.get(self.options.queue_by or default, ""))

    def check_queue_by(self, kind: str, known: Sequence[str]) -> None:
        """Check that queues can be made by what was asked for.

        Raises:
            UsageError: The format has no such field.
        """
        by = self.options.queue_by
        if by and by not in known:
            choice = ", ".join(sorted(known)) or "nothing: leave it out"
            raise UsageError(f"queues of {kind} cannot be made by {by!r}; choose {choice}")

    def line(self, file: InputFile) -> Line:
        """Return what reads the fields of a file's lines."""
        return Line(file.label, self.odd)

    def trace(self, kind: str) -> Trace:
        """Return what was read.

        Raises:
            InvalidInput: The reading is strict and a line could not be read.
        """
        jobs = from_zero(self._with_known_dependencies())
        self.odd.raise_any()
        if self.options.limit:
            jobs = only_known(jobs[: self.options.limit])
        return Trace(
            jobs, self.odd.skipped, tuple(self.nodes), format=kind, reasons=self.odd.reasons, problems=self.odd.problems
        )

    def _with_known_dependencies(self) -> Sequence[TraceJob]:
        """Return the jobs without what they would wait for in vain: jobs that are not there, and circles."""
        circle = in_circles(self.jobs)
        if not circle and not any(job.after for job in self.jobs):
            return self.jobs
        known = {job.name for job in self.jobs}
        for job in self.jobs:
            unknown = [name for name in job.after if name not in known]
            if unknown or job.name in circle:
                what = f"waits for {unknown[0]!r}, which is not there" if unknown else "waits for itself through others"
                self.odd.name("jobs", 0, job.name, f"{what}; it is read without that")
        return [replace(job, after=()) if job.name in circle else job for job in only_known(self.jobs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a file is recognised by."""

    file: InputFile
    name: str
    """Of the file, without folders and ``.gz``, in lower case."""
    text: str
    """Its beginning."""
    lines: tuple[str, ...]
    """The first of these that are not empty."""
    header: tuple[str, ...]
    """The fields of the first line that is no comment, as of a CSV, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of traces."""

    name: str
    """As ``--format`` has it."""
    title: str
    """In one line, with the publisher."""
    recognise: Callable[[Head], int]
    """How sure it is that a file is its own: 0 not at all, 10 by content, 1 more where the name agrees."""
    read: Callable[[Sequence[InputFile], Reading], None]
    """Reads all files of a trace that were recognised as of this format."""
    reads_parts: bool = False
    """Whether several files are one trace."""
    alone: Callable[[Sequence[InputFile]], Sequence[InputFile]] = lambda _: ()
    """Returns those of the files of which a trace has one only, where there are more than one."""
    queue_fields: tuple[str, ...] = ()
    """What queues can be made of."""


def machine(
    name: str, cpu: str = "", memory: str = "", gpus: int = 0, labels: dict[str, str] | None = None, count: int = 1
) -> NodeShape:
    """Return a machine of a trace: cpu 1 and memory 4 GiB per cpu where it does not say."""
    resources = {"cpu": cpu or "1"}
    resources["memory"] = memory or f"{4 * max(1, int(float(cpu or 1)) if cpu.isdigit() else 1)}Gi"
    if gpus:
        resources[GPU] = str(gpus)
    return NodeShape(count, {**resources, "pods": "110"}, labels=labels or {}, name=name)
