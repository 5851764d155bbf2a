"""`Experiment` and `ExperimentRun`: policies × variants × seeds, as values that other processes can be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from strato import __version__
from strato.client.cluster import Json
from strato.errors import UsageError
from strato.node.shapes import NodeShape
from strato.sim.traces import ReadOptions, Trace, read_trace
from strato.sim.workloads.spec import is_model

_FORMAT: Final = 1
"""Part of each run's digest. Increase it when kept records must not be used any more for equal inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """A trace or workload model, and how it is read."""

    sources: tuple[str, ...]
    """Files or folders that make up one trace, or the text of one workload model."""
    queue_by: str = ""
    limit: int = 0
    """Number of jobs to read from the beginning; 0 is all."""
    hours: float = 0.0
    """Takes only jobs that are submitted at most so many hours after the first; 0 takes all."""
    strict: bool = False
    format: str = ""
    """Name of the trace's format; empty recognises it."""

    @property
    def name(self) -> str:
        """Return how reports name it."""
        first = self.sources[0] if is_model(self.sources[0]) else Path(self.sources[0]).name
        return first if len(self.sources) == 1 else f"{first} and {len(self.sources) - 1} more"

    def seeded(self, seed: int) -> TraceSource:
        """Return the source for a seed of the experiment: a model that names no seed takes this one."""
        text = self.sources[0]
        if not is_model(text) or "seed=" in text:
            return self
        return replace(self, sources=(f"{text}{'' if text.endswith(':') else ','}seed={seed}",))

    def read(self) -> Trace:
        """Read the jobs.

        Raises:
            UsageError: A file cannot be read, or no job is submitted within ``hours``.
            InvalidInput: Lines of the files have problems; they are listed.
        """
        named: Any = self.sources[0] if is_model(self.sources[0]) else [Path(source) for source in self.sources]
        options = ReadOptions(queue_by=self.queue_by, limit=self.limit, strict=self.strict, format=self.format)
        trace = read_trace(named, options=options)
        if not self.hours:
            return trace
        jobs = tuple(job for job in trace.jobs if job.submit_seconds <= self.hours * 3600)
        if not jobs:
            raise UsageError(f"{self.name} has no job in its first {self.hours:g} hours")
        return replace(trace, jobs=jobs)


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy: a scheduler's configuration as text, with a name."""

    name: str
    text: str | None
    """YAML; None is the built-in configuration."""
    source: str
    """The file of the configuration, or its place in the experiment's file, for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The conditions under which policies are compared: jobs, nodes, queues, performance models."""

    name: str
    """Empty if the experiment has only one variant."""
    trace: TraceSource
    nodes: str
    """Node shapes as the user wrote them; empty takes the trace's nodes."""
    shapes: tuple[NodeShape, ...]
    """The same, parsed."""
    queues: tuple[Json, ...] = ()
    models: Mapping[str, Any] = field(default_factory=dict)
    """Performance models, as the experiment's file has them."""
    values: Mapping[str, str] = field(default_factory=dict)
    """In a sweep: parameter → its value in this variant."""
    policies: tuple[PolicyText, ...] = ()
    """In a sweep that changes policies: the policies of this variant; else empty: those of the experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRun:
    """One simulation of an experiment, with all its inputs except the jobs, which `trace` names."""

    policy: PolicyText
    variant: Variant
    seed: int
    fidelity: str

    @property
    def label(self) -> str:
        """Return how messages name the run."""
        parts = (self.policy.name, self.variant.name, f"seed {self.seed}")
        return ", ".join(part for part in parts if part)

    @property
    def trace(self) -> TraceSource:
        """Return the source of the run's jobs."""
        return self.variant.trace.seeded(self.seed)

    def digest(self, trace_digest: str) -> str:
        """Return a digest of all inputs of the run; equal digests mean equal records."""
        parts = [
            _FORMAT,
            __version__,
            self.fidelity,
            self.policy.text,
            self.variant.nodes,
            repr(self.variant.shapes),
            list(self.variant.queues),
            dict(self.variant.models),
            self.seed,
            trace_digest,
        ]
        return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Policies, variants and seeds; each combination is a run."""

    name: str
    policies: tuple[PolicyText, ...]
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...] = (0,)
    fidelity: str = "objects"
    output: str = ""
    """Folder of the results; empty if the experiment's file names none."""

    def runs(self) -> Iterator[ExperimentRun]:
        """Yield the runs by variant, then seed, then policy: so all policies of a variant and seed end early."""
        for variant in self.variants:
            for seed in self.seeds:
                for policy in variant.policies or self.policies:
                    yield ExperimentRun(policy=policy, variant=variant, seed=seed, fidelity=self.fidelity)


def files_digest(models: Mapping[str, Any]) -> str:
    """Return a digest of the files that performance models name; empty if they name none."""
    texts = [one for fields in models.values() if isinstance(fields, Mapping) for one in fields.values()]
    paths = [Path(one) for one in texts if isinstance(one, str) and Path(one).exists()]
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest() if paths else ""


def digest_of(trace: Trace) -> str:
    """Return a digest of a trace's jobs and nodes."""
    found = hashlib.sha256(msgspec.msgpack.encode(trace.jobs))
    found.update(repr(trace.nodes).encode())
    return found.hexdigest()
