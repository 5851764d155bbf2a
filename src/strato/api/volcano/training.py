"""Views of training.volcano.sh/v1alpha1 and datadependency.volcano.sh/v1alpha1 (spec volcano-api 13): types only."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY
from strato.api.volcano.batch import JobSpec, JobState


class SplitPolicy(View, frozen=True, kw_only=True):
    """How a replicated job is split over clusters."""

    mode: str = ""
    accelerators: int | None = None
    accelerator_type: str = ""


class ReplicatedJob(View, frozen=True, kw_only=True):
    """A job made several times."""

    name: str = ""
    template_spec: JobSpec = JobSpec()
    split_policy: SplitPolicy | None = None
    replicas: int = 1
    cluster_names: tuple[str, ...] = ()


class HyperJobSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    min_available: int | None = None
    max_domains: int | None = None
    plugins: Mapping[str, tuple[str, ...]] = EMPTY


class ReplicatedJobStatus(View, frozen=True, kw_only=True):
    """One replicated job's state."""

    name: str = ""
    job_states: Mapping[str, JobState] = EMPTY
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0


class HyperJobStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()
    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()
    split_count: int | None = None
    observed_generation: int = 0


class HyperJob(Object, frozen=True, kw_only=True):
    """A job of jobs over clusters."""

    spec: HyperJobSpec = HyperJobSpec()
    status: HyperJobStatus = HyperJobStatus()


class DataSourceSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    system: str = ""
    type: str = ""
    name: str = ""
    attributes: Mapping[str, str] = EMPTY
    reclaim_policy: str = ""


class DataSource(Object, frozen=True, kw_only=True):
    """Where data is."""

    spec: DataSourceSpec = DataSourceSpec()


class DataSourceClaimSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    system: str = ""
    data_source_type: str = ""
    data_source_name: str = ""
    attributes: Mapping[str, str] = EMPTY


class DataSourceClaimStatus(View, frozen=True, kw_only=True):
    """``status``."""

    phase: str = ""
    bound_data_source: str = ""
    conditions: tuple[Condition, ...] = ()


class DataSourceClaim(Object, frozen=True, kw_only=True):
    """A wish for data."""

    spec: DataSourceClaimSpec = DataSourceClaimSpec()
    status: DataSourceClaimStatus = DataSourceClaimStatus()
