"""Constants of the job state machine: phases, events, actions, and the keys written on pods.

Values are Volcano's, as they appear on the wire.
"""

from __future__ import annotations

from typing import Final


class Phase:
    """``status.state.phase`` of a Job."""

    PENDING: Final = "Pending"
    ABORTING: Final = "Aborting"
    ABORTED: Final = "Aborted"
    RUNNING: Final = "Running"
    RESTARTING: Final = "Restarting"
    COMPLETING: Final = "Completing"
    COMPLETED: Final = "Completed"
    TERMINATING: Final = "Terminating"
    TERMINATED: Final = "Terminated"
    FAILED: Final = "Failed"


FINISHED_PHASES: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
"""Phases that never change again. Aborted is not among them, because ResumeJob leaves it."""


class JobEvent:
    """Events of a job; policies name those they answer."""

    ANY: Final = "*"
    POD_PENDING: Final = "PodPending"
    POD_RUNNING: Final = "PodRunning"
    POD_FAILED: Final = "PodFailed"
    POD_EVICTED: Final = "PodEvicted"
    UNKNOWN: Final = "Unknown"
    TASK_COMPLETED: Final = "TaskCompleted"
    TASK_FAILED: Final = "TaskFailed"
    OUT_OF_SYNC: Final = "OutOfSync"
    COMMAND_ISSUED: Final = "CommandIssued"
    NONE: Final = ""


class JobAction:
    """Actions of the controller on a job."""

    ABORT_JOB: Final = "AbortJob"
    RESTART_JOB: Final = "RestartJob"
    RESTART_TASK: Final = "RestartTask"
    RESTART_POD: Final = "RestartPod"
    RESTART_PARTITION: Final = "RestartPartition"
    TERMINATE_JOB: Final = "TerminateJob"
    COMPLETE_JOB: Final = "CompleteJob"
    RESUME_JOB: Final = "ResumeJob"
    SYNC_JOB: Final = "SyncJob"
    ENQUEUE_JOB: Final = "EnqueueJob"


TARGET_ACTIONS: Final = frozenset({JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION})
"""Actions that kill a part of the job only."""

INTERNAL_ACTIONS: Final = frozenset({JobAction.SYNC_JOB, JobAction.ENQUEUE_JOB})
"""Internal actions, which no policy or command names; they cancel no delayed action."""

JOB_KIND: Final = "Job"
JOB_API_VERSION: Final = "batch.volcano.sh/v1alpha1"

TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
QUEUE_NAME: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION_ID: Final = "volcano.sh/partition-id"
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
RESTARTING: Final = "strato.dev/restarting"
"""Annotation of a job: its restart that has begun (see `restartintent`)."""
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
