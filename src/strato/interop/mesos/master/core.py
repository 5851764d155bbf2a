"""`Master`, the state machine: it takes calls and observations, and produces events and effects."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from strato.api.meta import Json
from strato.interop.mesos.allocator import Allocator
from strato.interop.mesos.master import records
from strato.interop.mesos.master.agents import Agents, UnitFacts
from strato.interop.mesos.master.effects import Kill, Outbox
from strato.interop.mesos.master.executors import Executors
from strato.interop.mesos.master.frameworks import Frameworks
from strato.interop.mesos.master.launching import Launching
from strato.interop.mesos.master.model import AgentFacts, Framework, Stream, Task, value_of
from strato.interop.mesos.master.offers import Offers
from strato.interop.mesos.master.operators import Operators
from strato.interop.mesos.master.state import MasterIdentity, MasterOptions, MasterState, Unit
from strato.interop.mesos.master.updates import Updates
from strato.interop.mesos.specs import FrameworkId

DEFAULT_KILL_SECONDS = 3.0


class Master:
    """The state machine. Methods that change state add the writes to the cluster to the outbox.

    Args:
        identity: Id, address and version shown to clients.
        options: Mesos' flags.
        allocator: Decides on offers.
        new_uuid: Generates ids of streams and pods.
    """

    def __init__(
        self, identity: MasterIdentity, options: MasterOptions, allocator: Allocator, new_uuid: Callable[[], uuid.UUID]
    ) -> None:
        self.state = MasterState(identity, options, allocator, new_uuid)
        self.offers = Offers(self.state)
        self.updates = Updates(self.state, self.offers)
        self.executors = Executors(self.state, self.updates)
        self.frameworks = Frameworks(self.state, self.offers, self.updates, self.executors)
        self.launching = Launching(self.state, self.offers, self.updates, self.executors)
        self.agents = Agents(self.state, self.offers, self.updates, self.executors)
        self.operators = Operators(self.state, self.offers, self.agents, self.frameworks, self.kill_all_on)

    def take_effects(self) -> Outbox:
        """Return the effects since the last call."""
        return self.state.outbox.take()

    # -- frameworks' calls ---------------------------------------------------------------------------------------------

    def call(self, framework: Framework, call: Json, now: float) -> None:
        """Carry out a validated call of a subscribed framework."""
        kind = call["type"]
        body: Json = call.get(kind.lower(), {})
        identifier = FrameworkId(framework.id)
        match kind:
            case "TEARDOWN":
                self.frameworks.remove(framework, now)
            case "ACCEPT":
                self.launching.accept(framework, body, now)
            case "DECLINE":
                self.offers.decline(framework, body.get("offer_ids", ()), body.get("filters"), now)
            case "REVIVE":
                roles = _own(framework, body.get("roles", ()))
                if roles is not None:
                    framework.suppressed -= frozenset(roles or framework.roles)
                    self.state.allocator.revive(identifier, roles)
                    self.state.outbox.saved_frameworks[framework.id] = None
            case "SUPPRESS":
                roles = _own(framework, body.get("roles", ()))
                if roles is not None:
                    framework.suppressed |= frozenset(roles or framework.roles)
                    self.state.allocator.suppress(identifier, roles)
                    self.state.outbox.saved_frameworks[framework.id] = None
            case "KILL":
                self._kill(framework, body, now)
            case "SHUTDOWN":
                agent = self.state.agents.get(value_of(body, "agent_id"))
                executor = agent and agent.executors.get((framework.id, value_of(body, "executor_id")))
                if executor:
                    self.executors.shut_down(executor)
            case "ACKNOWLEDGE":
                self.updates.acknowledge(framework, body, now)
            case "RECONCILE":
                self.updates.reconcile(framework, body.get("tasks", ()), now)
            case "RECONCILE_OPERATIONS":
                self._reconcile_operations(framework, body.get("operations", ()))
            case "MESSAGE":
                agent = self.state.agents.get(value_of(body, "agent_id"))
                executor = agent and agent.executors.get((framework.id, value_of(body, "executor_id")))
                if executor:
                    self.executors.message(executor, body["data"])
            case "ACCEPT_INVERSE_OFFERS" | "DECLINE_INVERSE_OFFERS":
                self.operators.inverse_offers_answered(framework, body, now, accepted=kind.startswith("ACCEPT"))
            case _:  # REQUEST and ACKNOWLEDGE_OPERATION_STATUS change nothing
                pass

    def _reconcile_operations(self, framework: Framework, asked: Iterable[Json]) -> None:
        for item in asked:
            status: Json = {"operation_id": item["operation_id"], "state": "OPERATION_UNKNOWN"}
            framework.send({"type": "UPDATE_OPERATION_STATUS", "update_operation_status": {"status": status}})

    def _kill(self, framework: Framework, body: Json, now: float) -> None:
        task = framework.tasks.get(value_of(body, "task_id"))
        if task is None:
            self.updates.reconcile(framework, [body], now)
            return
        agent_id = value_of(body, "agent_id")
        if agent_id and agent_id != task.agent_id:
            return
        self._kill_task(framework, task, body.get("kill_policy"), now)

    def _kill_task(self, framework: Framework, task: Task, policy: Json | None, now: float, reason: str = "") -> None:
        if task.is_terminal:
            return
        unit = self.state.units.get(task.unit)
        if unit is None:
            return
        for other in unit.tasks if unit.executor is None else [task]:
            other.kill_wanted = True
            other.killing_reason = other.killing_reason or reason
        self.state.outbox.saved_units[unit.name] = None
        if unit.executor is not None:
            self.executors.kill(unit.executor, task, policy, now)
            return
        if framework.has("TASK_KILLING_STATE"):
            for other in unit.tasks:
                self.updates.post(other, now, state="TASK_KILLING", message="Task is being killed")
        grace = (
            _grace(policy) if policy is not None and "grace_period" in policy else _grace(task.info.get("kill_policy"))
        )
        if unit.grace_seconds is None or grace < unit.grace_seconds:
            unit.grace_seconds = grace
            self.state.outbox.kills.append(Kill(unit.name, grace))

    def kill_all_on(self, agent_id: str, longest_seconds: float | None, now: float) -> None:
        """Kill all tasks on an agent that is being drained."""
        for framework in list(self.state.frameworks.values()):
            for task in [task for task in framework.tasks.values() if task.agent_id == agent_id]:
                grace = _grace(task.info.get("kill_policy"))
                grace = grace if longest_seconds is None else min(grace, longest_seconds)
                policy = {"grace_period": {"nanoseconds": int(grace * 1e9)}}
                self._kill_task(framework, task, policy, now, "REASON_AGENT_DRAINING")

    # -- the cluster's observations ------------------------------------------------------------------------------------

    def set_agent(self, facts: AgentFacts, now: float) -> None:
        """Add or update an agent by the present state of its node."""
        self.agents.set_agent(facts, now)

    def remove_agent(self, agent_id: str, now: float) -> None:
        """Remove the agent of a deleted node."""
        self.agents.remove_agent(agent_id, now)

    def observe(self, name: str, facts: UnitFacts, now: float) -> None:
        """Update tasks by the present state of one of the master's pods."""
        unit = self.state.units.get(name)
        if unit is not None:
            self.agents.observe(unit, facts, now)

    def unit_gone(self, name: str, now: float) -> None:
        """Handle the deletion of one of the master's pods."""
        unit = self.state.units.get(name)
        if unit is not None:
            self.agents.unit_gone(unit, now)

    def created(self, name: str) -> None:
        """Handle the creation of a pod, whose requests now hold its resources on the node."""
        unit = self.state.units.get(name)
        agent = self.state.agents.get(unit.agent_id) if unit is not None else None
        if agent is not None and agent.starting.pop(name, None) is not None:
            self.state.outbox.held_agents[agent.id] = None

    def launch_failed(self, name: str, message: str, now: float) -> None:
        """Handle a pod that could not be created."""
        unit = self.state.units.get(name)
        if unit is not None:
            self.created(name)
            self.agents.launch_failed(unit, message, now)

    def restore_unit(self, name: str, record: records.UnitRecord) -> Unit | None:
        """Restore a pod from its record; return None if its framework is gone."""
        framework = self.state.frameworks.get(record.framework_id)
        if framework is None:
            return None
        unit = records.restored_unit(name, record)
        self.state.add_unit(unit)
        for task in unit.tasks:
            if task.is_terminal and not task.pending:
                framework.completed.append(task)
            else:
                framework.tasks[task.id] = task
        executor = unit.executor
        agent = self.state.agents.get(unit.agent_id)
        if executor is not None and agent is not None:
            agent.executors[executor.framework_id, executor.id] = executor
        return unit

    # -- time ----------------------------------------------------------------------------------------------------------

    def allocate(self, now: float, *, batch: bool) -> None:
        """Make offers: in a batch run over all agents, or for agents that have changed."""
        self.offers.expire(now)
        self.offers.allocate(now, batch=batch)

    def tick(self, now: float) -> None:
        """Do what is due: remove frameworks that did not reconnect, resend updates, advance maintenance."""
        self.frameworks.expire(now)
        self.updates.retry(now)
        self.operators.tick(now)

    def heartbeat(self) -> None:
        """Send heartbeats to frameworks and operators."""
        for framework in self.state.frameworks.values():
            framework.send({"type": "HEARTBEAT"})
        self.state.notify({"type": "HEARTBEAT"})

    def disconnect(self, stream: Stream, now: float) -> None:
        """Handle the end of a framework's, executor's or operator's stream."""
        self.state.listeners.pop(stream, None)
        for framework in list(self.state.frameworks.values()):
            if framework.stream is stream:
                self.frameworks.disconnect(framework, stream, now)
                return
        for agent in self.state.agents.values():
            for executor in agent.executors.values():
                self.executors.disconnect(executor, stream)


def _own(framework: Framework, roles: Iterable[str]) -> tuple[str, ...] | None:
    """Return those of the given roles that a framework has; None if it has none of them; empty means all."""
    asked = tuple(roles)
    own = tuple(role for role in asked if role in framework.roles)
    return None if asked and not own else own


def _grace(policy: Json | None) -> float:
    if policy is None or "grace_period" not in policy:
        return DEFAULT_KILL_SECONDS
    return max(0.0, float(policy["grace_period"]["nanoseconds"]) / 1e9)
