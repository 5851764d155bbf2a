"""What an experiment is: policies × variants × seeds over jobs, as values for another process or machine."""

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
"""Raised when equal inputs are to be run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """Where jobs come from."""

    sources: tuple[str, ...]
    """Files or folders that are one trace, or one workload model."""
    queue_by: str = ""
    limit: int = 0
    """Only the first so many jobs; 0 is all."""
    hours: float = 0.0
    """Only jobs submitted so many hours after the first; 0 is all."""
    strict: bool = False
    format: str = ""
    """Empty recognises it."""

    @property
    def name(self) -> str:
        """Return what reports call it."""
        first = self.sources[0] if is_model(self.sources[0]) else Path(self.sources[0]).name
        return first if len(self.sources) == 1 else f"{first} and {len(self.sources) - 1} more"

    def seeded(self, seed: int) -> TraceSource:
        """Return where the jobs of a seed come from: a model that names no seed draws others for each."""
        text = self.sources[0]
        if not is_model(text) or "seed=" in text:
            return self
        return replace(self, sources=(f"{text}{'' if text.endswith(':') else ','}seed={seed}",))

    def read(self) -> Trace:
        """Read the jobs.

        Raises:
            UsageError: A file cannot be read, or none of its jobs is left.
            InvalidInput: What is wrong with its lines.
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
    """A scheduler's configuration by name."""

    name: str
    text: str | None
    """YAML; None is the built-in configuration."""
    source: str
    """The file it comes from, or its place in the experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What the policies meet."""

    name: str
    """Empty where there is one only."""
    trace: TraceSource
    nodes: str
    """As written; empty are the trace's own."""
    shapes: tuple[NodeShape, ...]
    """Empty are the trace's own."""
    queues: tuple[Json, ...] = ()
    models: Mapping[str, Any] = field(default_factory=dict)
    """Performance models that are switched on, as written."""
    values: Mapping[str, str] = field(default_factory=dict)
    """In a sweep: parameter → its value here."""
    policies: tuple[PolicyText, ...] = ()
    """In a sweep over what policies say: as they are here; empty are those of the experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of an experiment, with all that it follows from but the jobs."""

    policy: PolicyText
    variant: Variant
    seed: int
    fidelity: str

    @property
    def label(self) -> str:
        """Return what messages call it."""
        parts = (self.policy.name, self.variant.name, f"seed {self.seed}")
        return ", ".join(part for part in parts if part)

    @property
    def trace(self) -> TraceSource:
        """Return where its jobs come from."""
        return self.variant.trace.seeded(self.seed)

    def digest(self, trace_digest: str) -> str:
        """Return a digest of all that the run follows from."""
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
    """A whole experiment."""

    name: str
    policies: tuple[PolicyText, ...]
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...] = (0,)
    fidelity: str = "objects"
    output: str = ""
    """Folder of the results; empty where the file names none."""

    def runs(self) -> Iterator[Run]:
        """Yield the runs: by variant, then seed, then policy, so that policies can be compared early."""
        for variant in self.variants:
            for seed in self.seeds:
                for policy in variant.policies or self.policies:
                    yield Run(policy=policy, variant=variant, seed=seed, fidelity=self.fidelity)


def files_digest(models: Mapping[str, Any]) -> str:
    """Return a digest of the files that performance models name; empty where there are none."""
    texts = [one for fields in models.values() if isinstance(fields, Mapping) for one in fields.values()]
    paths = [Path(one) for one in texts if isinstance(one, str) and Path(one).exists()]
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest() if paths else ""


def digest_of(trace: Trace) -> str:
    """Return a digest of a trace's jobs and machines."""
    found = hashlib.sha256(msgspec.msgpack.encode(trace.jobs))
    found.update(repr(trace.nodes).encode())
    return found.hexdigest()
