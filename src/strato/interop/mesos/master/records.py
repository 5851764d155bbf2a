"""Records of frameworks and pods in the cluster, from which a restarted master restores its state.

A framework's record has its info, suppressed roles and offer constraints. A pod's record has its TaskInfos and the
acknowledged state of each. The present states of command tasks are derived from the pod itself; those of an executor's
tasks are in the record.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.interop.mesos.master.model import Executor, Framework, Task, value_of
from strato.interop.mesos.master.state import Unit
from strato.interop.mesos.master.taskinfo import resources_of
from strato.interop.mesos.resourcejson import from_json, to_json
from strato.interop.mesos.resources import NOTHING


class FrameworkRecord(msgspec.Struct, omit_defaults=True):
    """Record of a framework."""

    info: Json
    registered_at: float
    reregistered_at: float
    suppressed: list[str] = []
    constraints: Json | None = None
    disconnected_at: float | None = None


class TaskRecord(msgspec.Struct, omit_defaults=True):
    """Record of a task."""

    info: Json
    state: str = "TASK_STAGING"
    """The newest acknowledged state; for an executor's task the newest known one."""
    pending: list[Json] = []
    """Unacknowledged updates of an executor's task."""
    statuses: list[Json] = []
    kill: str = ""
    """Why it was killed, if it was: a reason, or ``wanted``."""
    executor_uuid: str = ""


class UnitRecord(msgspec.Struct, omit_defaults=True):
    """Record of a pod, stored in its annotation."""

    framework_id: str
    agent_id: str
    role: str
    tasks: list[TaskRecord]
    asked: list[Json]
    """Resources that the pod requests."""
    executor: Json | None = None
    is_group: bool = False
    has_subscribed: bool = False
    has_ended: bool = False
    """Whether the executor has ended."""


def framework_record(framework: Framework) -> FrameworkRecord:
    """Return the record of a framework."""
    return FrameworkRecord(
        framework.info,
        framework.registered_at,
        framework.reregistered_at,
        sorted(framework.suppressed),
        framework.constraints,
        framework.disconnected_at,
    )


def restored_framework(record: FrameworkRecord) -> Framework:
    """Return a framework restored from its record."""
    framework = Framework(
        value_of(record.info, "id"),
        record.info,
        record.registered_at,
        record.reregistered_at,
        frozenset(record.suppressed),
        record.constraints,
    )
    framework.principal = record.info.get("principal", "")
    return framework


def unit_record(unit: Unit, executor: Json | None) -> UnitRecord:
    """Return the record of a pod; ``executor`` is its ExecutorInfo, for a group the default executor's."""
    of_executor = executor is not None and not unit.is_group
    return UnitRecord(
        unit.framework_id,
        unit.agent_id,
        unit.role,
        [_task_record(task, of_executor=of_executor) for task in unit.tasks],
        to_json(unit.pod_resources),
        executor,
        unit.is_group,
        unit.executor is not None and unit.executor.has_subscribed,
        of_executor and unit.executor is None,
    )


def _task_record(task: Task, *, of_executor: bool) -> TaskRecord:
    kill = (task.killing_reason or "wanted") if task.kill_wanted else ""
    if of_executor:
        return TaskRecord(task.info, task.state, list(task.pending), task.statuses, kill, task.executor_uuid)
    unacknowledged = len(task.pending)
    done = task.statuses[: len(task.statuses) - unacknowledged] if unacknowledged else task.statuses
    return TaskRecord(task.info, done[-1]["state"] if done else "TASK_STAGING", [], done[-1:], kill)


def restored_unit(name: str, record: UnitRecord) -> Unit:
    """Return a pod restored from its record; the caller adds its tasks to their framework."""
    unit = Unit(name, record.framework_id, record.agent_id, record.role, [])
    unit.pod_resources = from_json(record.asked)
    executor_id = value_of(record.executor, "executor_id") if record.executor else ""
    own = resources_of(record.executor, record.role) if record.executor else NOTHING
    for position, kept in enumerate(record.tasks):
        resources = resources_of(kept.info, record.role)
        if record.is_group and position == 0:
            resources += own
        task = Task(
            value_of(kept.info, "task_id"), record.framework_id, record.agent_id, kept.info, record.role, resources
        )
        task.executor_id, task.group, task.unit = executor_id, record.is_group, name
        task.state, task.statuses, task.pending = kept.state, list(kept.statuses), deque(kept.pending)
        task.kill_wanted = bool(kept.kill)
        task.killing_reason = "" if kept.kill == "wanted" else kept.kill
        task.executor_uuid = kept.executor_uuid
        task.has_resources = not task.is_terminal
        unit.tasks.append(task)
    if record.is_group:
        unit.default_executor = record.executor
    elif record.has_ended:
        unit.old_executor = record.executor
    elif record.executor is not None and not record.has_ended:
        executor = Executor(executor_id, record.framework_id, record.agent_id, record.executor, own, name)
        executor.has_subscribed = record.has_subscribed
        executor.tasks = {task.id: task for task in unit.tasks}
        if not record.has_subscribed:
            executor.queued = [{"type": "LAUNCH", "launch": {"task": task.info}} for task in unit.tasks]
        unit.executor = executor
    return unit


def encode(record: Any) -> str:
    """Return a record as JSON text."""
    return msgspec.json.encode(record).decode()
