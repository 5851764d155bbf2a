"""Status updates: one per task in flight, resent until acknowledged; and statuses that need no acknowledgement."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from strato.api.meta import Json
from strato.interop.mesos.master.effects import Forget
from strato.interop.mesos.master.model import TERMINAL, Executor, Framework, Task, value_of
from strato.interop.mesos.master.offers import Offers
from strato.interop.mesos.master.state import MasterState, update_uuid
from strato.interop.mesos.wire import message

FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 600.0
RANKS = {"TASK_STAGING": 0, "TASK_STARTING": 1, "TASK_RUNNING": 2, "TASK_KILLING": 3}
"""Order of a task's states; all other states come after these."""
_LAST_RANK = 4
_STATUS_FIELDS = ("state", "message", "source", "reason", "healthy", "container_status", "data", "labels",
                  "check_status", "timestamp", "unreachable_time", "limitation")  # fmt: skip


class Updates:
    """Sends updates of tasks, handles acknowledgements, and removes tasks that have ended."""

    def __init__(self, state: MasterState, offers: Offers) -> None:
        self._state, self._offers = state, offers

    # -- updates with acknowledgement ----------------------------------------------------------------------------------

    def post(self, task: Task, now: float, **fields: Any) -> None:
        """Queue an update of a task: its state with message, reason and so on. Earlier updates are sent first.

        States only advance: an update to an earlier state is dropped, and so is any update after a terminal one.
        """
        framework = self._state.frameworks.get(task.framework_id)
        new = fields["state"]
        if framework is None or task.is_terminal or rank(new) < rank(task.state):
            return
        status = self._status(task, now, fields)
        uuid = fields.get("uuid")
        if uuid is None:
            unit = self._state.units.get(task.unit)
            identity = unit.uid or unit.name if unit is not None else task.unit
            what = f"{new}/{fields.get('healthy')}" if new == task.state else new
            uuid = base64.b64encode(update_uuid(identity, task.id, what).bytes).decode()
        status["uuid"] = uuid
        self._take_state(framework, task, status)
        task.pending.append(status)
        if len(task.pending) == 1:
            self._send_first(framework, task, now)
        if task.executor_id:
            self._save(task)

    def _status(self, task: Task, now: float, fields: Json) -> Json:
        status: Json = {"task_id": {"value": task.id}, "agent_id": {"value": task.agent_id}, "timestamp": now}
        status["executor_id"] = {"value": task.executor_id or task.id}
        status.update((name, fields[name]) for name in _STATUS_FIELDS if fields.get(name) is not None)
        status.setdefault("source", "SOURCE_EXECUTOR")
        return status

    def _take_state(self, framework: Framework, task: Task, status: Json) -> None:
        """Record a task's newest state; the first terminal one frees its resources."""
        task.state = status["state"]
        if task.statuses and task.statuses[-1]["state"] == task.state:
            task.statuses[-1] = status
        else:
            task.statuses.append(status)
        self._state.count(f"tasks_{task.state.removeprefix('TASK_').lower()}")
        if task.is_terminal or task.state == "TASK_UNREACHABLE":
            self._offers.give_back(task)
        update = {"framework_id": {"value": framework.id}, "status": status, "state": task.state}
        self._state.notify({"type": "TASK_UPDATED", "task_updated": update})

    def _send_first(self, framework: Framework, task: Task, now: float) -> None:
        task.retry_seconds = FIRST_RETRY_SECONDS
        task.retry_at = now + task.retry_seconds
        self._send(framework, task.pending[0])

    def _send(self, framework: Framework, status: Json) -> None:
        shown = {**status, "state": framework.state_for(status["state"])}
        framework.send({"type": "UPDATE", "update": {"status": shown}})

    def acknowledge(self, framework: Framework, call: Json, now: float) -> None:
        """Handle an acknowledgement; ignore one that does not match the update in flight."""
        task = framework.tasks.get(value_of(call, "task_id"))
        if task is None or not task.pending or task.agent_id != value_of(call, "agent_id"):
            return
        if base64.b64decode(task.pending[0]["uuid"]) != base64.b64decode(call["uuid"]):
            return
        status = task.pending.popleft()
        executor = self._executor_of(task)
        if executor is not None and executor.stream is not None and task.executor_uuid:
            acknowledged = {"task_id": {"value": task.id}, "uuid": status["uuid"]}
            executor.stream.send({"type": "ACKNOWLEDGED", "acknowledged": acknowledged})
        if status["state"] in TERMINAL:
            self.forget(framework, task)
        else:
            self._save(task)
            if task.pending:
                self._send_first(framework, task, now)

    def _executor_of(self, task: Task) -> Executor | None:
        unit = self._state.units.get(task.unit)
        return unit.executor if unit is not None else None

    def _save(self, task: Task) -> None:
        if task.unit in self._state.units:
            self._state.outbox.saved_units[task.unit] = None

    def forget(self, framework: Framework, task: Task) -> None:
        """Remove an ended task; with its last task remove the pod, unless an executor runs in it."""
        framework.tasks.pop(task.id, None)
        framework.completed.append(task)
        unit = self._state.units.get(task.unit)
        if unit is None:
            return
        executor = unit.executor
        if executor is not None:
            executor.tasks.pop(task.id, None)
            unit.tasks.remove(task)
            self._state.outbox.saved_units[unit.name] = None
            self._state.outbox.held_agents[unit.agent_id] = None
        elif all(other.id not in framework.tasks or framework.tasks[other.id] is not other for other in unit.tasks):
            self.let_go(unit.name)
        else:
            self._state.outbox.saved_units[unit.name] = None

    def let_go(self, name: str) -> None:
        """Remove a pod whose end is acknowledged."""
        unit = self._state.drop_unit(name)
        if unit is not None:
            self._state.outbox.saved_units.pop(name, None)
            self._state.outbox.forgotten.append(Forget(name))

    # -- retries
    # ---------------------------------------------------------------------------------------------------------

    def retry(self, now: float) -> None:
        """Resend updates that have not been acknowledged for long."""
        for framework in self._state.frameworks.values():
            if not framework.is_connected:
                continue
            for task in framework.tasks.values():
                if task.pending and now >= task.retry_at:
                    task.retry_seconds = min(2 * task.retry_seconds or FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
                    task.retry_at = now + task.retry_seconds
                    self._send(framework, task.pending[0])

    def resend(self, framework: Framework, now: float) -> None:
        """Resend unacknowledged updates to a framework that has reconnected."""
        for task in framework.tasks.values():
            if task.pending:
                self._send_first(framework, task, now)

    # -- statuses without acknowledgement
    # -------------------------------------------------------------------------------

    def answer(self, framework: Framework, now: float, **fields: Any) -> None:
        """Send a status generated by the master, which needs no acknowledgement.

        Args:
            framework: The recipient.
            now: The time.
            fields: ``task_id``, ``agent_id`` (empty: none), ``state``, ``reason`` and others of a TaskStatus.
        """
        status: Json = {"task_id": {"value": fields["task_id"]}, "timestamp": now, "source": "SOURCE_MASTER"}
        if fields.get("agent_id"):
            status["agent_id"] = {"value": fields["agent_id"]}
        status.update((name, fields[name]) for name in _STATUS_FIELDS if fields.get(name) is not None)
        status["state"] = framework.state_for(fields["state"])
        framework.send({"type": "UPDATE", "update": {"status": status}})

    def reconcile(self, framework: Framework, asked: Iterable[Json], now: float) -> None:
        """Answer a RECONCILE with the states of the named tasks, or of all tasks."""
        tasks = list(asked)
        if not tasks:
            for task in framework.tasks.values():
                self._answer_known(framework, task, now)
            return
        for item in tasks:
            task_id, agent_id = value_of(item, "task_id"), value_of(item, "agent_id")
            known = framework.tasks.get(task_id)
            if known is not None:
                self._answer_known(framework, known, now)
            elif not self._state.is_recovering or (agent_id and agent_id in self._state.agents):
                self._answer_unknown(framework, task_id, agent_id, now)

    def _answer_known(self, framework: Framework, task: Task, now: float) -> None:
        latest = task.pending[0] if task.pending else task.statuses[-1] if task.statuses else {}
        container, healthy = latest.get("container_status"), latest.get("healthy")
        self.answer(
            framework, now, task_id=task.id, agent_id=task.agent_id, state=latest.get("state", task.state),
            reason="REASON_RECONCILIATION", message="Reconciliation: Latest task state", container_status=container,
            healthy=healthy,
        )  # fmt: skip

    def _answer_unknown(self, framework: Framework, task_id: str, agent_id: str, now: float) -> None:
        agent = self._state.agents.get(agent_id)
        unreachable = framework.unreachable.get(task_id)
        since = None
        if agent is not None and agent.unreachable_at is None:
            state, text = "TASK_GONE", "Task is unknown to the agent"
        elif agent is not None or unreachable is not None:
            state, text = "TASK_UNREACHABLE", "Task is unreachable"
            known = agent or self._state.agents.get(unreachable.agent_id if unreachable else "")
            since = known.unreachable_at if known is not None else None
            agent_id = agent_id or (unreachable.agent_id if unreachable else "")
        elif agent_id in self._state.gone_agents:
            state, text = "TASK_GONE_BY_OPERATOR", "Task is gone"
        else:
            state, text = "TASK_UNKNOWN", "Task is unknown"
        self.answer(
            framework, now, task_id=task_id, agent_id=agent_id, state=state, reason="REASON_RECONCILIATION",
            message=f"Reconciliation: {text}",
            unreachable_time=None if since is None else {"nanoseconds": int(since * 1e9)},
        )  # fmt: skip


def rank(state: str) -> int:
    """Return the rank of a state in `RANKS`."""
    return RANKS.get(state, _LAST_RANK)


def is_status(status: Json) -> bool:
    """Whether a status has all required fields."""
    return not list(message("TaskStatus").missing(status, ""))
