"""Agents are added, change, become unreachable and are removed; observations of pods become states of tasks."""

from __future__ import annotations

from dataclasses import dataclass

from strato.api.meta import Json
from strato.interop.mesos.master.executors import Executors
from strato.interop.mesos.master.model import Agent, AgentFacts, Executor, Task
from strato.interop.mesos.master.offers import Offers
from strato.interop.mesos.master.state import MasterState, Unit
from strato.interop.mesos.master.updates import Updates
from strato.interop.mesos.master.views import agent_json
from strato.interop.mesos.master.volumes import volumes_of
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.specs import AgentId, AgentSpec, Domain, FrameworkId


@dataclass(frozen=True, slots=True)
class Observed:
    """Observed state of one task."""

    state: str
    message: str = ""
    reason: str = ""
    healthy: bool | None = None
    ip: str = ""


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """Observed state of one of the master's pods."""

    uid: str
    tasks: tuple[Observed, ...]
    """Tasks in the order of the containers; for an executor's pod one entry, for the executor process itself."""
    is_ended: bool = False
    is_deleting: bool = False
    exit_status: int = 0
    """Wait status of an executor's process."""
    why: str = ""
    """The node's message about that end; may be empty."""


class Agents:
    """Maintains agents and the tasks on them."""

    def __init__(self, state: MasterState, offers: Offers, updates: Updates, executors: Executors) -> None:
        self._state, self._offers, self._updates, self._executors = state, offers, updates, executors

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def set_agent(self, facts: AgentFacts, now: float) -> None:
        """Add or update an agent by the present state of its node."""
        agent = self._state.agents.get(facts.id)
        if facts.id in self._state.gone_agents:
            return
        if agent is None:
            self._add(facts, now)
            return
        if agent.facts == facts:
            return
        before = spec_of(agent)
        agent.facts = facts
        if spec_of(agent) != before:
            self._state.allocator.update_agent(AgentId(agent.id), spec_of(agent))
            self._shrink(agent)
        if facts.is_ready != agent.is_connected:
            self._connected(agent, now)
        self._activity(agent)

    def _add(self, facts: AgentFacts, now: float) -> None:
        agent = Agent(facts, registered_at=now)
        agent.converted_from, agent.converted_to = self._state.conversions.pop(facts.id, (NOTHING, NOTHING))
        self._state.agents[agent.id] = agent
        for unit in self._state.units_on(agent.id):
            executor = unit.executor
            if executor is not None:
                agent.executors[executor.framework_id, executor.id] = executor
        if facts.is_ready:
            self._give_to_allocator(agent)
        else:
            agent.is_connected = False
        self._state.outbox.held_agents[agent.id] = None
        if self._state.listeners:
            body = {"agent": agent_json(self._state, agent)}
            self._state.notify({"type": "AGENT_ADDED", "agent_added": body})

    def _give_to_allocator(self, agent: Agent) -> None:
        """Add an agent to the allocator, with the resources used there."""
        held: dict[tuple[FrameworkId, str], Resources] = {}
        for unit in self._state.units_on(agent.id):
            holder = FrameworkId(unit.framework_id), unit.role
            held[holder] = held.get(holder, NOTHING) + unit_use(unit)
        self._state.allocator.add_agent(AgentId(agent.id), spec_of(agent), {k: v for k, v in held.items() if v})
        self._activity(agent)

    def _activity(self, agent: Agent) -> None:
        """Activate or deactivate an agent in the allocator."""
        if agent.is_offered:
            self._state.allocator.activate_agent(AgentId(agent.id))
        else:
            self._state.allocator.deactivate_agent(AgentId(agent.id))
            self._offers.rescind(list(agent.offers.values()))

    def _shrink(self, agent: Agent) -> None:
        """Rescind offers until offered and used resources fit into the agent's."""
        while agent.offers and not agent.total.contains(self._allocated(agent)):
            newest = max(agent.offers.values(), key=lambda offer: offer.made_at)
            self._offers.rescind([newest])

    def _allocated(self, agent: Agent) -> Resources:
        total = NOTHING
        for offer in agent.offers.values():
            total += offer.resources.allocated(None)
        for unit in self._state.units_on(agent.id):
            total += unit_use(unit)
        return total

    def _connected(self, agent: Agent, now: float) -> None:
        """Handle a node that has become ready or unready."""
        agent.is_connected = agent.facts.is_ready
        if agent.is_connected:
            agent.unreachable_at = None
            self._come_back(agent, now)
            return
        agent.unreachable_at = now
        self._offers.rescind(list(agent.offers.values()))
        self._state.allocator.remove_agent(AgentId(agent.id))
        for framework in list(self._state.frameworks.values()):
            for task in [task for task in framework.tasks.values() if task.agent_id == agent.id]:
                if task.is_terminal:
                    continue
                self._offers.give_back(task)
                framework.tasks.pop(task.id)
                framework.unreachable[task.id] = task
                self._updates.answer(
                    framework, now, task_id=task.id, agent_id=agent.id, state="TASK_UNREACHABLE",
                    reason="REASON_AGENT_REMOVED", message=f"Agent {agent.facts.hostname} is unreachable",
                    unreachable_time={"nanoseconds": int(now * 1e9)},
                )  # fmt: skip
            framework.send({"type": "FAILURE", "failure": {"agent_id": {"value": agent.id}}})

    def _come_back(self, agent: Agent, now: float) -> None:
        """Restore tasks that still run on a node that was unreachable."""
        for framework in self._state.frameworks.values():
            for task in [task for task in framework.unreachable.values() if task.agent_id == agent.id]:
                del framework.unreachable[task.id]
                framework.tasks[task.id] = task
                task.has_resources = True
                self._updates.answer(
                    framework, now, task_id=task.id, agent_id=agent.id, state=task.state,
                    reason="REASON_AGENT_REREGISTERED", message="Agent is reachable again",
                )  # fmt: skip
        self._give_to_allocator(agent)
        self._state.outbox.held_agents[agent.id] = None

    def remove_agent(self, agent_id: str, now: float, *, by_operator: bool = False) -> None:
        """Remove an agent that is gone for good, with its tasks."""
        agent = self._state.agents.get(agent_id)
        if agent is None:
            return
        self._offers.rescind(list(agent.offers.values()))
        lost = "TASK_GONE_BY_OPERATOR" if by_operator else "TASK_GONE"
        reason = "REASON_AGENT_REMOVED_BY_OPERATOR" if by_operator else "REASON_AGENT_REMOVED"
        for framework in list(self._state.frameworks.values()):
            for task in [*framework.tasks.values(), *framework.unreachable.values()]:
                if task.agent_id == agent_id and not task.is_terminal:
                    framework.unreachable.pop(task.id, None)
                    framework.tasks[task.id] = task
                    text = f"Agent {agent.facts.hostname} removed"
                    self._updates.post(task, now, state=lost, reason=reason, source="SOURCE_MASTER", message=text)
            framework.send({"type": "FAILURE", "failure": {"agent_id": {"value": agent_id}}})
        if by_operator:
            self._state.gone_agents[agent_id] = now
        self._state.allocator.remove_agent(AgentId(agent_id))
        del self._state.agents[agent_id]
        self._state.set_volumes(dict.fromkeys(volumes_of(agent_id, agent.converted_to)))
        self._state.outbox.saved_registry |= bool(agent.converted_to)
        self._state.outbox.held_agents.pop(agent_id, None)
        if self._state.listeners:
            body = {"agent_id": {"value": agent_id}}
            self._state.notify({"type": "AGENT_REMOVED", "agent_removed": body})

    def set_deactivated(self, agent: Agent, *, deactivated: bool) -> None:
        """Stop offering an agent, or offer it again, for an operator."""
        agent.is_deactivated = deactivated
        self._activity(agent)

    # -- pods ----------------------------------------------------------------------------------------------------------

    def observe(self, unit: Unit, facts: UnitFacts, now: float) -> None:
        """Update tasks by the present state of their pod."""
        unit.uid = facts.uid
        executor = unit.executor
        if executor is not None:
            if facts.is_ended:
                self._executor_ended(unit, executor, facts.exit_status, facts.why, now)
            return
        for task, seen in zip(unit.tasks, facts.tasks, strict=False):
            self._observe_task(task, seen, now, is_deleting=facts.is_deleting)

    def _observe_task(self, task: Task, seen: Observed, now: float, *, is_deleting: bool) -> None:
        framework = self._state.frameworks.get(task.framework_id)
        if framework is None or task.id not in framework.tasks or seen.state == "TASK_STAGING":
            return
        state, reason, message = seen.state, seen.reason, seen.message
        ended = state in ("TASK_FINISHED", "TASK_FAILED")
        if ended and task.kill_wanted:
            state, reason = "TASK_KILLED", task.killing_reason
        elif ended and is_deleting and state == "TASK_FAILED" and not reason:
            state, reason, message = "TASK_GONE", "REASON_CONTAINER_PREEMPTED", "The pod was deleted"
        if state == task.state and seen.healthy == _healthy(task):
            return
        fields: Json = {"state": state, "message": message or None, "reason": reason or None, "healthy": seen.healthy}
        if state == task.state:
            fields["reason"] = "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"
        if seen.ip:
            addresses = [{"ip_addresses": [{"protocol": "IPv4", "ip_address": seen.ip}]}]
            fields["container_status"] = {"container_id": {"value": task.unit}, "network_infos": addresses}
        fields["source"] = "SOURCE_EXECUTOR" if not reason.startswith("REASON_CONTAINER") else "SOURCE_AGENT"
        self._updates.post(task, now, **fields)

    def _executor_ended(self, unit: Unit, executor: Executor, exit_status: int, why: str, now: float) -> None:
        self._executors.ended(executor, exit_status, why, now, self._give_back_executor)
        unit.executor, unit.old_executor = None, executor.info  # the pod stays until all its updates are acknowledged
        framework = self._state.frameworks.get(unit.framework_id)
        unit.tasks = [task for task in unit.tasks if framework is not None and task.id in framework.tasks]
        if not unit.tasks:
            self._updates.let_go(unit.name)
        else:
            self._state.outbox.saved_units[unit.name] = None

    def _give_back_executor(self, executor: Executor) -> None:
        unit = self._state.units[executor.unit]
        self._offers.restore(executor.framework_id, executor.agent_id, unit.role, executor.resources)
        self._state.outbox.held_agents[executor.agent_id] = None

    def unit_gone(self, unit: Unit, now: float) -> None:
        """Handle a pod that was deleted before its last states were observed."""
        if unit.executor is not None:
            self._executor_ended(unit, unit.executor, 9, "", now)
            return
        framework = self._state.frameworks.get(unit.framework_id)
        for task in list(unit.tasks):
            if framework is not None and framework.unreachable.pop(task.id, None) is not None:
                framework.tasks[task.id] = task
            killed = task.kill_wanted
            state = "TASK_KILLED" if killed else "TASK_GONE"
            reason = task.killing_reason or (None if killed else "REASON_CONTAINER_PREEMPTED")
            text = "The pod was deleted"
            self._updates.post(task, now, state=state, reason=reason, message=text, source="SOURCE_AGENT")

    def launch_failed(self, unit: Unit, message: str, now: float) -> None:
        """Handle a pod that could not be created."""
        executor = unit.executor
        if executor is not None:
            agent = self._state.agents.get(executor.agent_id)
            if agent is not None:
                agent.executors.pop((executor.framework_id, executor.id), None)
            self._give_back_executor(executor)
            unit.executor = None
        for task in list(unit.tasks):
            self._updates.post(
                task, now, state="TASK_FAILED", reason="REASON_CONTAINER_LAUNCH_FAILED", source="SOURCE_AGENT",
                message=message,
            )  # fmt: skip


def _healthy(task: Task) -> bool | None:
    return task.statuses[-1].get("healthy") if task.statuses else None


def unit_use(unit: Unit) -> Resources:
    """Return the resources of a pod's tasks and executor."""
    total = NOTHING if unit.executor is None else unit.executor.resources.allocated(None)
    for task in unit.tasks:
        if task.has_resources:
            total += task.resources.allocated(None)
    return total


def spec_of(agent: Agent) -> AgentSpec:
    """Return an agent's spec for the allocator."""
    facts = agent.facts
    return AgentSpec(
        hostname=facts.hostname,
        resources=agent.total,
        attributes=facts.attributes,
        domain=Domain(facts.region, facts.zone) if facts.region else None,
    )
