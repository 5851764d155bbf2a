"""Custom executors: processes that run tasks themselves and speak the executor API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from strato.api.meta import Json
from strato.errors import StratoError
from strato.interop.mesos.master.calls import InvalidCall, check_body, is_uuid, kind_of
from strato.interop.mesos.master.effects import Kill
from strato.interop.mesos.master.model import Agent, Executor, Framework, Stream, Task, value_of
from strato.interop.mesos.master.state import MasterState
from strato.interop.mesos.resourcejson import to_json

if TYPE_CHECKING:
    from strato.interop.mesos.master.updates import Updates

SHUTDOWN_GRACE_SECONDS = 5.0
HEARTBEAT_SECONDS = 30 * 60.0


class ExecutorRefused(StratoError):
    """A call of an executor that is refused; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Executors:
    """Sends events to executors, and handles their calls."""

    def __init__(self, state: MasterState, updates: Updates) -> None:
        self._state, self._updates = state, updates

    # -- events to executors
    # -------------------------------------------------------------------------------------------------------

    def launch(self, executor: Executor, task: Task) -> None:
        """Send a task to an executor."""
        executor.tasks[task.id] = task
        self._send(executor, {"type": "LAUNCH", "launch": {"task": task.info}})

    def kill(self, executor: Executor, task: Task, policy: Json | None, now: float) -> None:
        """Ask an executor to kill a task; a task that has not been sent yet is dropped instead."""
        if executor.stream is None and not executor.has_subscribed:
            executor.queued = [event for event in executor.queued if _task_of(event) != task.id]
            self._updates.post(
                task, now, state="TASK_KILLED", source="SOURCE_AGENT", reason="REASON_TASK_KILLED_DURING_LAUNCH",
                message="Killed before delivery to the executor",
            )  # fmt: skip
            if not any(not other.is_terminal for other in executor.tasks.values()):
                self.shut_down(executor)
            return
        body: Json = {"task_id": {"value": task.id}}
        if policy is not None:
            body["kill_policy"] = policy
        self._send(executor, {"type": "KILL", "kill": body})

    def message(self, executor: Executor, data: str) -> None:
        """Pass a framework's message on; it is lost if the executor is not connected."""
        if executor.stream is not None:
            executor.stream.send({"type": "MESSAGE", "message": {"data": data}})

    def shut_down(self, executor: Executor) -> None:
        """Shut an executor down with all its tasks."""
        if executor.is_shutting_down:
            return
        executor.is_shutting_down = True
        if executor.stream is not None:
            executor.stream.send({"type": "SHUTDOWN"})
        self._state.outbox.kills.append(Kill(executor.unit, SHUTDOWN_GRACE_SECONDS))

    def _send(self, executor: Executor, event: Json) -> None:
        if executor.stream is not None:
            executor.stream.send(event)
        else:
            executor.queued.append(event)

    # -- calls of executors
    # -----------------------------------------------------------------------------------------------------

    def find(self, call: Json) -> Executor:
        """Return the executor that makes a call.

        Raises:
            ExecutorRefused: The executor is unknown, or the call is not valid.
        """
        try:
            kind = kind_of("executor.Call", call)
            if kind != "HEARTBEAT":
                check_body(call, kind.lower())
        except InvalidCall as error:
            raise ExecutorRefused(400, f"Failed to validate Executor::Call: {error}") from error
        framework_id, executor_id = value_of(call, "framework_id"), value_of(call, "executor_id")
        if framework_id not in self._state.frameworks:
            raise ExecutorRefused(400, "Framework cannot be found")
        for agent in self._state.agents.values():
            found = agent.executors.get((framework_id, executor_id))
            if found is not None:
                return found
        raise ExecutorRefused(400, "Executor cannot be found")

    def subscribe(self, executor: Executor, body: Json, stream: Stream, now: float) -> None:
        """Connect an executor's stream, and send the events that were queued."""
        old, executor.stream = executor.stream, stream
        if old is not None:
            old.finish()
        executor.has_subscribed = True
        agent, framework = self._state.agents[executor.agent_id], self._state.frameworks[executor.framework_id]
        stream.send(
            {
                "type": "SUBSCRIBED",
                "subscribed": {
                    "executor_info": executor.info,
                    "framework_info": framework.info,
                    "agent_info": agent_info(agent, self._state.identity.port),
                    "container_id": {"value": executor.unit},
                },
            }
        )
        for update in body.get("unacknowledged_updates", ()):
            self.update(executor, update, now)
        queued, executor.queued = executor.queued, []
        for event in queued:
            stream.send(event)

    def disconnect(self, executor: Executor, stream: Stream) -> None:
        """Handle the end of an executor's stream."""
        if executor.stream is stream:
            executor.stream = None

    def update(self, executor: Executor, body: Json, now: float) -> None:
        """Handle a status update of an executor.

        Raises:
            ExecutorRefused: The update is not valid.
        """
        status: Json = body["status"]
        wrong = _problem_of_status(status)
        if wrong:
            raise ExecutorRefused(400, f"Failed to validate Executor::Call: {wrong}")
        task = executor.tasks.get(value_of(status, "task_id"))
        if task is None or any(known["uuid"] == status["uuid"] for known in task.pending):
            return
        task.executor_uuid = status["uuid"]
        fields = {name: value for name, value in status.items() if name not in ("task_id", "agent_id", "executor_id")}
        self._updates.post(task, now, **{"timestamp": now, **fields})

    def forward(self, executor: Executor, data: str) -> None:
        """Pass an executor's message on to its framework."""
        framework = self._state.frameworks[executor.framework_id]
        body = {"agent_id": {"value": executor.agent_id}, "executor_id": {"value": executor.id}, "data": data}
        framework.send({"type": "MESSAGE", "message": body})

    def ended(
        self, executor: Executor, exit_status: int, why: str, now: float, give_back: Callable[[Executor], None]
    ) -> None:
        """Handle the end of an executor: its tasks fail, and its framework is sent a FAILURE.

        Args:
            executor: The executor.
            exit_status: The wait status.
            why: The node's message about the end; may be empty.
            now: The time.
            give_back: Frees the executor's resources.
        """
        message = f"Executor terminated with status {exit_status}{f': {why}' if why else ''}"
        agent, framework = self._state.agents.get(executor.agent_id), self._state.frameworks.get(executor.framework_id)
        for task in list(executor.tasks.values()):
            if task.is_terminal:
                continue
            killed = task.kill_wanted or executor.is_shutting_down
            self._updates.post(
                task, now, state="TASK_KILLED" if killed else "TASK_FAILED", source="SOURCE_AGENT",
                reason=task.killing_reason or "REASON_EXECUTOR_TERMINATED",
                message=message,
            )  # fmt: skip
        if agent is not None:
            agent.executors.pop((executor.framework_id, executor.id), None)
        give_back(executor)
        if executor.stream is not None:
            executor.stream.finish()
            executor.stream = None
        if framework is not None:
            body: Json = {"agent_id": {"value": executor.agent_id}, "executor_id": {"value": executor.id}}
            framework.send({"type": "FAILURE", "failure": {**body, "status": exit_status}})

    def heartbeat(self) -> None:
        """Send heartbeats to executors."""
        for agent in self._state.agents.values():
            for executor in agent.executors.values():
                if executor.stream is not None:
                    executor.stream.send({"type": "HEARTBEAT"})


def of_framework(state: MasterState, framework: Framework) -> list[Executor]:
    """Return a framework's executors on all agents."""
    return [
        executor
        for agent in state.agents.values()
        for (owner, _), executor in agent.executors.items()
        if owner == framework.id
    ]


def agent_info(agent: Agent, port: int) -> Json:
    """Return an agent as AgentInfo."""
    from strato.interop.mesos.master.offers import agent_extras

    return {
        "hostname": agent.facts.hostname,
        "port": port,
        "id": {"value": agent.id},
        "resources": to_json(agent.total),
        **agent_extras(agent),
    }


def _problem_of_status(status: Json) -> str | None:
    if "uuid" not in status or not is_uuid(status["uuid"]):
        return "Not a valid UUID"
    if status["state"] == "TASK_STAGING":
        return "TASK_STAGING updates are not allowed from an executor"
    if status.get("source", "SOURCE_EXECUTOR") != "SOURCE_EXECUTOR":
        return "Received Call from executor with source other than SOURCE_EXECUTOR"
    return None


def _task_of(event: Json) -> str:
    return value_of(event.get("launch", {}).get("task", {}), "task_id")
