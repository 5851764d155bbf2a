"""ACCEPT: carry out operations on offers, such as launching tasks; free the rest, with the call's filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strato.api.meta import Json
from strato.errors import InvalidInput
from strato.interop.mesos.filters import refuse_seconds
from strato.interop.mesos.master.conversions import CONVERSIONS, RESIZES, converted
from strato.interop.mesos.master.effects import PodLaunch
from strato.interop.mesos.master.executors import Executors
from strato.interop.mesos.master.model import Agent, Executor, Framework, Offer, Task, value_of
from strato.interop.mesos.master.offers import Offers
from strato.interop.mesos.master.state import MasterState, Unit
from strato.interop.mesos.master.taskinfo import (
    MOST_TASK_BYTES,
    Asked,
    filled_in,
    problem_of_command,
    problem_of_task,
    resources_of,
)
from strato.interop.mesos.master.updates import Updates
from strato.interop.mesos.resourcejson import to_json
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.wire import JSON, message


@dataclass(slots=True)
class _Room:
    """Resources that one ACCEPT may still use."""

    agent: Agent
    role: str
    left: Resources
    fresh: Resources = NOTHING
    """Reservations and volumes that this call has made."""

    def use(self, resources: Resources) -> None:
        self.left -= resources


class Launching:
    """Carries out ACCEPT calls."""

    def __init__(self, state: MasterState, offers: Offers, updates: Updates, executors: Executors) -> None:
        self._state, self._offers, self._updates, self._executors = state, offers, updates, executors

    def accept(self, framework: Framework, call: Json, now: float) -> None:
        """Carry out one call."""
        ids = [item["value"] for item in call.get("offer_ids", ())]
        operations: Sequence[Json] = call.get("operations", ())
        offers = [offer for offer_id in dict.fromkeys(ids) if (offer := framework.offers.get(offer_id)) is not None]
        problem = self._problem_of_offers(framework, ids)
        if problem is not None:
            for offer in offers:
                self._offers.recover(offer)
            self._drop(
                framework, operations, "REASON_INVALID_OFFERS", f"Task launched with invalid offers: {problem}", now
            )
            return
        agent = self._state.agents[offers[0].agent_id]
        if not agent.is_connected:
            for offer in offers:
                self._offers.recover(offer)
            self._drop(framework, operations, "REASON_AGENT_DISCONNECTED", "Agent disconnected", now, agent.id)
            return
        self._state.count("offers_accepted")
        total = NOTHING
        for offer in offers:
            total += offer.resources
            self._offers.take(offer)
        room = _Room(agent, offers[0].role, total)
        for operation in operations:
            self._apply(framework, operation, room, now)
        unused = room.left - room.fresh
        self._offers.restore(framework.id, agent.id, room.role, room.left - unused)
        self._offers.restore(framework.id, agent.id, room.role, unused, refuse_seconds(call.get("filters")), now)

    def _problem_of_offers(self, framework: Framework, ids: Sequence[str]) -> str | None:
        if not ids:
            return "No offers specified"
        seen: set[str] = set()
        first: Offer | None = None
        for offer_id in ids:
            offer = framework.offers.get(offer_id)
            if offer is None:
                return f"Offer {offer_id} is no longer valid"
            if offer_id in seen:
                return f"Duplicate offer {offer_id} in offer list"
            seen.add(offer_id)
            first = first or offer
            if offer.role != first.role:
                return (
                    "Aggregated offers must be allocated to the same role. Offer "
                    f"{offer_id} uses role {offer.role} but another is using role {first.role}"
                )
            if offer.agent_id != first.agent_id:
                return (
                    "Aggregated offers must belong to one single agent. Offer "
                    f"{offer_id} uses agent {offer.agent_id} and agent {first.agent_id}"
                )
        return None

    def _drop(
        self, framework: Framework, operations: Sequence[Json], reason: str, text: str, now: float, agent_id: str = ""
    ) -> None:
        """Report operations that cannot be carried out because their offers are not valid."""
        for operation in operations:
            for task in tasks_of(operation):
                self._updates.answer(
                    framework, now, task_id=value_of(task, "task_id"), agent_id=agent_id or value_of(task, "agent_id"),
                    state="TASK_DROPPED", reason=reason, message=text,
                )  # fmt: skip
            if not tasks_of(operation):
                self.operation_answer(framework, operation, "OPERATION_DROPPED", text)

    def operation_answer(
        self, framework: Framework, operation: Json, state: str, text: str = "", made: Resources = NOTHING
    ) -> None:
        """Report the state of an operation, if it has an id, which requests that."""
        if "id" not in operation:
            return
        status: Json = {"operation_id": operation["id"], "state": state}
        if text:
            status["message"] = text
        if made:
            status["converted_resources"] = to_json(made)
        framework.send({"type": "UPDATE_OPERATION_STATUS", "update_operation_status": {"status": status}})

    # -- operations ----------------------------------------------------------------------------------------------------

    def _apply(self, framework: Framework, operation: Json, room: _Room, now: float) -> None:
        kind = operation.get("type")
        if kind == "LAUNCH":
            if "id" in operation:
                self._refuse_all(framework, operation, "The `id` field cannot be set on LAUNCH operations", room, now)
                return
            for task in tasks_of(operation):
                self._launch_one(framework, task, room, now)
        elif kind == "LAUNCH_GROUP":
            if "id" in operation:
                text = "The `id` field cannot be set on LAUNCH_GROUP operations"
                self._refuse_all(framework, operation, text, room, now)
                return
            if "launch_group" in operation:
                self._launch_group(framework, operation["launch_group"], room, now)
        elif kind in CONVERSIONS:
            outcome = converted(operation, room.left, room.role, self._state.disks(room.agent))
            if isinstance(outcome, str):
                self.operation_answer(framework, operation, "OPERATION_ERROR", outcome)
                return
            old, new = outcome
            self._state.convert(framework.id, room.agent, room.role, old, new)
            room.left -= old
            room.fresh -= old
            if kind in RESIZES:  # the result of a resize is only in the next offer
                self._offers.restore(framework.id, room.agent.id, room.role, new)
            else:
                room.left += new
                room.fresh += new
            self.operation_answer(framework, operation, "OPERATION_FINISHED", made=new)
        else:
            self.operation_answer(framework, operation, "OPERATION_ERROR", f"Operation {kind} is not supported")

    def _refuse_all(self, framework: Framework, operation: Json, text: str, room: _Room, now: float) -> None:
        for task in tasks_of(operation):
            self._refuse(framework, task, room, text, now)

    def _refuse(
        self, framework: Framework, task: Json, room: _Room, text: str, now: float, reason: str = "REASON_TASK_INVALID"
    ) -> None:
        self._state.count("tasks_error")
        self._updates.answer(
            framework, now, task_id=value_of(task, "task_id"), agent_id=value_of(task, "agent_id") or room.agent.id,
            state="TASK_ERROR", reason=reason, message=text,
        )  # fmt: skip

    def _asked(self, framework: Framework, room: _Room, *, in_group: bool = False) -> Asked:
        return Asked(
            framework_id=framework.id, agent_id=room.agent.id, role=room.role, taken_ids=_taken_ids(framework),
            executors=room.agent.executors, available=room.left, in_group=in_group,
        )  # fmt: skip

    def _launch_one(self, framework: Framework, info: Json, room: _Room, now: float) -> None:
        problem = problem_of_task(info, self._asked(framework, room)) or _problem_of_size(info)
        if problem is not None:
            self._refuse(framework, info, room, problem, now)
            return
        resources = resources_of(info, room.role)
        task = self._task(framework, info, room, resources)
        executor = info.get("executor")
        if executor is None:
            room.use(resources)
            self._start(framework, room, [task], resources)
            return
        key = framework.id, value_of(executor, "executor_id")
        task.executor_id = key[1]
        known = room.agent.executors.get(key)
        if known is not None:
            room.use(resources)
            task.unit = known.unit
            self._state.units[known.unit].tasks.append(task)
            self._state.outbox.saved_units[known.unit] = None
            self._state.outbox.held_agents[room.agent.id] = None
            self._executors.launch(known, task)
            return
        own = resources_of(executor, room.role)
        room.use(resources + own)
        filled = filled_in(executor, framework.id)
        unit = self._start(framework, room, [task], resources + own, executor=filled)
        made = Executor(key[1], framework.id, room.agent.id, filled, own, unit.name)
        unit.executor = room.agent.executors[key] = made
        self._executors.launch(made, task)

    def _launch_group(self, framework: Framework, group: Json, room: _Room, now: float) -> None:
        infos: list[Json] = list(group.get("task_group", {}).get("tasks", ()))
        executor: Json = group["executor"]
        left, ids = room.left, set[str]()
        problem = None if infos else "Task group cannot be empty"
        if executor.get("type") != "DEFAULT":
            problem = "'ExecutorInfo.type' must be 'DEFAULT'"
        try:
            own = resources_of(executor, room.role)
        except InvalidInput as error:
            own, problem = NOTHING, str(error)
        if problem is None and not left.contains(own):
            problem = "Total resources required by the executor of the task group are more than available"
        left -= own
        total = own
        for info in infos:
            if problem is not None:
                break
            asked = self._asked(framework, room, in_group=True)
            problem = problem_of_task(info, Asked(**{**_fields(asked), "available": left})) or _problem_of_size(info)
            problem = problem or problem_of_command(info.get("command", {}))
            if problem is None and value_of(info, "task_id") in ids:
                problem = f"Task group has duplicate task ID: {value_of(info, 'task_id')}"
            if problem is None:
                ids.add(value_of(info, "task_id"))
                wanted = resources_of(info, room.role)
                left -= wanted
                total += wanted
        if problem is not None:
            for info in infos:
                text = f"Task group is invalid: {problem}"
                self._refuse(framework, info, room, text, now, "REASON_TASK_GROUP_INVALID")
            return
        room.use(total)
        tasks = [self._task(framework, info, room, resources_of(info, room.role)) for info in infos]
        tasks[0].resources += own  # counted with the first task, as the executor ends with its group
        for task in tasks:
            task.executor_id = value_of(executor, "executor_id")
            task.group = True
        unit = self._start(framework, room, tasks, total, executor=filled_in(executor, framework.id), is_group=True)
        unit.default_executor = executor

    def _task(self, framework: Framework, info: Json, room: _Room, resources: Resources) -> Task:
        task = Task(value_of(info, "task_id"), framework.id, room.agent.id, info, room.role, resources)
        framework.tasks[task.id] = task
        self._state.count("tasks_staging")
        return task

    def _start(
        self,
        framework: Framework,
        room: _Room,
        tasks: list[Task],
        resources: Resources,
        executor: Json | None = None,
        *,
        is_group: bool = False,
    ) -> Unit:
        """Add a pod to the state and its creation to the outbox."""
        name = unit_name(tasks[0].id, self._state.new_uuid().hex)
        unit = Unit(name, framework.id, room.agent.id, room.role, tasks)
        unit.pod_resources = resources.allocated(None)
        self._state.add_unit(unit)
        room.agent.starting[name] = unit.pod_resources
        for task in tasks:
            task.unit = name
        self._state.outbox.held_agents[room.agent.id] = None
        self._state.outbox.launches.append(
            PodLaunch(
                name,
                framework.id,
                room.agent.id,
                room.role,
                tuple(task.info for task in tasks),
                executor,
                is_group,
                resources.allocated(None),
                str(framework.info.get("user", "")),
            )
        )
        self._notify(tasks)
        return unit

    def _notify(self, tasks: Sequence[Task]) -> None:
        if self._state.listeners:
            from strato.interop.mesos.master.views import task_json

            for task in tasks:
                self._state.notify({"type": "TASK_ADDED", "task_added": {"task": task_json(task)}})


def tasks_of(operation: Json) -> Sequence[Json]:
    """Return the TaskInfos of a LAUNCH or LAUNCH_GROUP; none for other operations."""
    if operation.get("type") == "LAUNCH":
        found: Sequence[Json] = operation.get("launch", {}).get("task_infos", ())
        return found
    if operation.get("type") == "LAUNCH_GROUP":
        group: Sequence[Json] = operation.get("launch_group", {}).get("task_group", {}).get("tasks", ())
        return group
    return ()


def _taken_ids(framework: Framework) -> Callable[[str], str | None]:
    def why(task_id: str) -> str | None:
        if task_id in framework.tasks:
            return f"Task has duplicate ID: {task_id}"
        if task_id in framework.unreachable:
            return f"Task reuses the ID of an unreachable task: {task_id}"
        return None

    return why


def _problem_of_size(info: Json) -> str | None:
    size = len(message("TaskInfo").encode(info, JSON))
    return f"Task of {size} bytes is over the limit of {MOST_TASK_BYTES}" if size > MOST_TASK_BYTES else None


def _fields(asked: Asked) -> Json:
    return {name: getattr(asked, name) for name in Asked.__slots__}


def unit_name(task_id: str, unique: str) -> str:
    """Return the name of a task's pod: the valid characters of the task's id, and a unique suffix."""
    readable = "".join(char if char.isascii() and char.isalnum() else "-" for char in task_id.lower())[:40].strip("-")
    return f"{readable or 'task'}-{unique[:10]}"
