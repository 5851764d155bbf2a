"""`Reading`: the options and results of reading a trace, which all formats share; `Format` describes a format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from strato.errors import UsageError
from strato.node.shapes import GPU, NodeShape
from strato.sim.traces.cells import LineReader, Names, QueueNames
from strato.sim.traces.input import InputFile
from strato.sim.traces.oddities import Oddities
from strato.sim.workloads.jobs import Trace, TraceJob, from_zero, in_cycles, only_known

MOST_JOBS = 20_000_000
MOST_NODES = 1_000_000
QUEUE_FIELDS = ("queue", "user", "group")
"""Fields that can become a job's queue; each format has some of them."""
GPU_MODEL = "nvidia.com/gpu.product"
"""Label of nodes with the model of their GPUs, as NVIDIA's GPU feature discovery sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a trace is read."""

    queue_by: str = ""
    """The field that becomes a job's queue: ``queue``, ``user`` or ``group``; empty is the format's default."""
    limit: int = 0
    """Number of jobs to take, in the order of submission; 0 is all."""
    strict: bool = False
    """Whether a line that cannot be read is an error; else it is skipped, counted and reported."""
    format: str = ""
    """Name of the format; empty recognises it by content."""


@dataclass(slots=True)
class Reading:
    """One reading of a trace; the reader of the format adds jobs and machines to it."""

    options: ReadOptions
    odd: Oddities
    jobs: list[TraceJob] = field(default_factory=list)
    nodes: list[NodeShape] = field(default_factory=list)
    names: Names = field(default_factory=lambda: Names("job"))
    queues: QueueNames = field(default_factory=QueueNames)

    def add(self, job: TraceJob) -> None:
        """Add a job.

        Raises:
            UsageError: The trace has more than `MOST_JOBS`.
        """
        self.jobs.append(job)
        if len(self.jobs) > MOST_JOBS:
            raise UsageError(f"the trace holds more than {MOST_JOBS:,} jobs; cut it into parts")

    def add_nodes(self, shape: NodeShape) -> None:
        """Add a machine, or several equal ones.

        Raises:
            UsageError: The trace has more than `MOST_NODES`.
        """
        self.nodes.append(shape)
        if len(self.nodes) > MOST_NODES or shape.count > MOST_NODES:
            raise UsageError(f"the trace names more than {MOST_NODES:,} machines")

    def queue(self, default: str = "queue", **fields: str) -> str:
        """Return the name of a job's queue.

        Args:
            default: The field to use if the options name none; empty puts jobs into the default queue.
            fields: The job's values of ``queue``, ``user`` and ``group``, as far as the trace has them.
        """
        return self.queues.of(fields.get(self.options.queue_by or default, ""))

    def check_queue_by(self, kind: str, known: Sequence[str]) -> None:
        """Check that the format has the field that the options name for queues.

        Raises:
            UsageError: The format has no such field.
        """
        by = self.options.queue_by
        if by and by not in known:
            choice = ", ".join(sorted(known)) or "nothing: leave it out"
            raise UsageError(f"queues of {kind} cannot be made by {by!r}; choose {choice}")

    def line(self, file: InputFile) -> LineReader:
        """Return a `LineReader` to read the fields of a file with."""
        return LineReader(file.label, self.odd)

    def trace(self, kind: str) -> Trace:
        """Return the trace of the jobs and machines added so far.

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
        """Return the jobs without dependencies on jobs that the trace does not have, and without cycles of them."""
        on_cycle = in_cycles(self.jobs)
        if not on_cycle and not any(job.after for job in self.jobs):
            return self.jobs
        known = {job.name for job in self.jobs}
        for job in self.jobs:
            unknown = [name for name in job.after if name not in known]
            if unknown or job.name in on_cycle:
                what = f"waits for {unknown[0]!r}, which is not there" if unknown else "waits for itself through others"
                self.odd.name("jobs", 0, job.name, f"{what}; it is read without that")
        return [replace(job, after=()) if job.name in on_cycle else job for job in only_known(self.jobs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a file, by which formats recognise it."""

    file: InputFile
    name: str
    """Name of the file without folders and ``.gz``, in lower case."""
    text: str
    """The beginning of its content."""
    lines: tuple[str, ...]
    """The first lines that are not empty."""
    header: tuple[str, ...]
    """The fields of the first line that is no comment, read as CSV, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of traces."""

    name: str
    """Its name for ``--format``."""
    title: str
    """A line that describes it, with the publisher."""
    recognise: Callable[[Head], int]
    """Returns how sure it is that a file has this format: 0 not at all, 10 by content, 11 if the name fits too."""
    read: Callable[[Sequence[InputFile], Reading], None]
    """Reads all files of a trace of this format."""
    reads_parts: bool = False
    """Whether several files can be one trace."""
    alone: Callable[[Sequence[InputFile]], Sequence[InputFile]] = lambda _: ()
    """Returns the files of a kind of which a trace can have only one; more than one is an error."""
    queue_fields: tuple[str, ...] = ()
    """Fields that can become a job's queue."""


def machine(
    name: str, cpu: str = "", memory: str = "", gpus: int = 0, labels: dict[str, str] | None = None, count: int = 1
) -> NodeShape:
    """Return a machine of a trace; without given amounts it has 1 cpu, and 4 GiB of memory per cpu."""
    resources = {"cpu": cpu or "1"}
    resources["memory"] = memory or f"{4 * max(1, int(float(cpu or 1)) if cpu.isdigit() else 1)}Gi"
    if gpus:
        resources[GPU] = str(gpus)
    return NodeShape(count, {**resources, "pods": "110"}, labels=labels or {}, name=name)
