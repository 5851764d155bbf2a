"""Views of flow.volcano.sh/v1alpha1 (spec volcano-api 8)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import EMPTY
from strato.api.volcano.batch import JobSpec, TaskState


class HttpHeader(View, frozen=True, kw_only=True):
    """One header of a request."""

    name: str = ""
    value: str = ""


class HttpGetProbe(View, frozen=True, kw_only=True):
    """Pods of a task, or of a service, that answer a GET with a status from 200 to 399."""

    task_name: str = ""
    service_name: str = ""
    """A service of the flow's namespace, one of whose pods has to answer; the probe is not about targets then."""
    path: str = ""
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocketProbe(View, frozen=True, kw_only=True):
    """Pods of a task that accept a connection."""

    task_name: str = ""
    port: int = 0


class TaskStatusProbe(View, frozen=True, kw_only=True):
    """Pods of a task that are in a phase."""

    task_name: str = ""
    phase: str = ""


class ObjectProbe(View, frozen=True, kw_only=True):
    """An object of the flow's namespace, and the condition to wait for, as in ``kubectl wait --for``."""

    api_version: str = "v1"
    kind: str = ""
    name: str = ""
    resource: str = ""
    """The plural in the API's paths; needed for kinds with an irregular plural."""
    condition: str = msgspec.field(default="create", name="for")


class ClaimPathProbe(View, frozen=True, kw_only=True):
    """A file or directory in a claim of the flow's namespace."""

    claim_name: str = ""
    path: str = ""
    image: str = ""
    """Image of the pod that checks the claim; it must have a shell."""


class FlowProbe(View, frozen=True, kw_only=True):
    """What a target must fulfil instead of being completed, and further conditions of the step."""

    http_get_list: tuple[HttpGetProbe, ...] = ()
    tcp_socket_list: tuple[TcpSocketProbe, ...] = ()
    task_status_list: tuple[TaskStatusProbe, ...] = ()
    object_list: tuple[ObjectProbe, ...] = ()
    claim_path_list: tuple[ClaimPathProbe, ...] = ()


class FlowDependsOn(View, frozen=True, kw_only=True):
    """Steps that must come first, and their probe."""

    targets: tuple[str, ...] = ()
    probe: FlowProbe | None = None


class FlowPatch(View, frozen=True, kw_only=True):
    """Changes of the template's spec, which the controller reads as JSON."""


class Flow(View, frozen=True, kw_only=True):
    """One step: the name of a JobTemplate."""

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None


class JobFlowSpec(View, frozen=True, kw_only=True):
    """``spec``; an empty retain policy acts as ``retain``."""

    flows: tuple[Flow, ...] = ()
    job_retain_policy: str = ""


class RunningHistory(View, frozen=True, kw_only=True):
    """One stretch in a state."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobStatus(View, frozen=True, kw_only=True):
    """One entry of ``jobStatusList``."""

    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: tuple[RunningHistory, ...] = ()


class FlowCondition(View, frozen=True, kw_only=True):
    """One entry of ``conditions``, keyed by job name."""

    phase: str = ""
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: Mapping[str, TaskState] = EMPTY


class JobFlowState(View, frozen=True, kw_only=True):
    """``status.state``."""

    phase: str = ""


class WaitingStep(View, frozen=True, kw_only=True):
    """A step whose conditions do not hold, and why."""

    name: str = ""
    message: str = ""


class JobFlowStatus(View, frozen=True, kw_only=True):
    """``status``."""

    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    unknown_jobs: tuple[str, ...] = msgspec.field(default=(), name="unKnowJobs")
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: Mapping[str, FlowCondition] = EMPTY
    state: JobFlowState = JobFlowState()
    waiting_steps: tuple[WaitingStep, ...] = ()


class JobFlow(Object, frozen=True, kw_only=True):
    """A graph of jobs."""

    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(View, frozen=True, kw_only=True):
    """``status``: the jobs made from the template."""

    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(Object, frozen=True, kw_only=True):
    """A job spec to be used by flows."""

    spec: JobSpec = JobSpec()
    status: JobTemplateStatus = JobTemplateStatus()
