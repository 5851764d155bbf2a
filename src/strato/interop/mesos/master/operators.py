"""Calls by which operators change weights, quotas, reservations, maintenance, draining and gone agents."""

from __future__ import annotations

from collections.abc import Callable

from strato.api.meta import Json
from strato.errors import InvalidInput, StratoError
from strato.interop.mesos import quota as quotas
from strato.interop.mesos import roles
from strato.interop.mesos.filters import refuse_seconds
from strato.interop.mesos.maintenance import InverseOfferStatus
from strato.interop.mesos.master.agents import Agents
from strato.interop.mesos.master.conversions import converted
from strato.interop.mesos.master.frameworks import Frameworks
from strato.interop.mesos.master.model import Agent, Framework, value_of
from strato.interop.mesos.master.offers import Offers
from strato.interop.mesos.master.state import MasterState
from strato.interop.mesos.quantities import to_millis
from strato.interop.mesos.resources import Resources
from strato.interop.mesos.specs import AgentId, FrameworkId, Unavailability

KillAll = Callable[[str, float | None, float], None]


class OperatorRefused(StratoError):
    """A call is refused; ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class Operators:
    """Carries out operators' calls."""

    def __init__(
        self, state: MasterState, offers: Offers, agents: Agents, frameworks: Frameworks, kill_all: KillAll
    ) -> None:
        self._state, self._offers, self._agents, self._frameworks = state, offers, agents, frameworks
        self._kill_all = kill_all

    def call(self, call: Json, now: float) -> None:
        """Carry out a call that changes state.

        Raises:
            OperatorRefused: The call cannot be carried out, or does not exist.
        """
        kind = call["type"]
        body: Json = call.get(kind.lower(), {})
        match kind:
            case "TEARDOWN":
                self.teardown(value_of(body, "framework_id"), now)
            case "UPDATE_WEIGHTS":
                self.update_weights(body.get("weight_infos", ()))
            case "UPDATE_QUOTA":
                self.update_quotas(body.get("quota_configs", ()), force=body.get("force", False))
            case "SET_QUOTA":
                self.update_quotas([old_quota(body.get("quota_request", {}))], force=True)
            case "REMOVE_QUOTA":
                self.update_quotas([{"role": body.get("role", "")}], force=True)
            case "RESERVE_RESOURCES" | "UNRESERVE_RESOURCES" | "CREATE_VOLUMES" | "DESTROY_VOLUMES":
                verb = kind.partition("_")[0]
                self._convert(value_of(body, "agent_id"), {"type": verb, verb.lower(): body})
            case "GROW_VOLUME" | "SHRINK_VOLUME":
                if "agent_id" not in body:
                    raise OperatorRefused("Failed to validate master::Call: Expecting 'agent_id' to be present")
                self._convert(value_of(body, "agent_id"), call)
            case "UPDATE_MAINTENANCE_SCHEDULE":
                self.set_schedule(body.get("schedule", {}))
            case "START_MAINTENANCE" | "STOP_MAINTENANCE":
                self.set_down(body.get("machines", ()), now, down=kind.startswith("START"))
            case "MARK_AGENT_GONE":
                self._agent(value_of(body, "agent_id"))
                self._agents.remove_agent(value_of(body, "agent_id"), now, by_operator=True)
                self._state.outbox.saved_registry = True
            case "DRAIN_AGENT":
                self._drain(body, now)
            case "DEACTIVATE_AGENT" | "REACTIVATE_AGENT":
                agent = self._agent(value_of(body, "agent_id"))
                self._agents.set_deactivated(agent, deactivated=kind.startswith("DEACTIVATE"))
            case "SET_LOGGING_LEVEL":
                pass
            case _:
                raise OperatorRefused(f"Call {kind} is not supported", 501)

    def teardown(self, framework_id: str, now: float) -> None:
        """Remove a framework."""
        framework = self._state.frameworks.get(framework_id)
        if framework is None:
            raise OperatorRefused(f"No framework found with ID {framework_id}")
        self._frameworks.remove(framework, now)

    def _agent(self, agent_id: str) -> Agent:
        agent = self._state.agents.get(agent_id)
        if agent is None:
            raise OperatorRefused(f"Agent {agent_id} not found", 404)
        return agent

    # -- weights and quota ---------------------------------------------------------------------------------------------

    def update_weights(self, infos: list[Json] | tuple[Json, ...]) -> None:
        """Set weights; if a framework has one of the roles, rescind all offers, as all shares have changed."""
        if not infos:
            raise OperatorRefused("Failed to validate update weights request: no weights are given")
        for info in infos:
            role, weight = info.get("role", ""), info.get("weight", 0)
            wrong = roles.problem_of(role)
            if wrong is not None:
                raise OperatorRefused(f"Failed to validate update weights request JSON: Invalid role '{role}': {wrong}")
            if not isinstance(weight, int | float) or isinstance(weight, bool) or not weight > 0:
                raise OperatorRefused("Failed to validate update weights request JSON: Weights must be positive")
        for info in infos:
            self._state.weights[info["role"]] = float(info["weight"])
            self._state.allocator.set_weight(info["role"], float(info["weight"]))
        self._state.outbox.saved_registry = True
        named = {info["role"] for info in infos}
        if any(
            named & {role, *roles.ancestors(role)} for each in self._state.frameworks.values() for role in each.roles
        ):
            for framework in list(self._state.frameworks.values()):
                self._offers.rescind(list(framework.offers.values()))

    def update_quotas(self, configs: list[Json] | tuple[Json, ...], *, force: bool) -> None:
        """Set quotas by role; one without guarantees and limits removes the role's quota."""
        read = [(config, self._quota(config, force=force)) for config in configs]
        for config, quota in read:
            role = config["role"]
            self._state.allocator.set_quota(role, quota)
            if quota:
                self._state.quotas[role] = config
            else:
                self._state.quotas.pop(role, None)
            for framework in list(self._state.frameworks.values()):
                if quota.limits:
                    own = [o for o in framework.offers.values() if roles.top_level(o.role) == role]
                    self._offers.rescind(own)
        self._state.outbox.saved_registry = True

    def _quota(self, config: Json, *, force: bool) -> quotas.Quota:
        role = config.get("role", "")
        try:
            quota = quotas.Quota(_millis(config.get("guarantees", {})), _millis(config.get("limits", {})))
            problems = quotas.problems_of(role, quota)
            if problems:
                raise InvalidInput(f"Quota of role {role!r}", problems)
            if not force:
                allocator = self._state.allocator
                others = {name: other for name, other in allocator.quotas().items() if name != role}
                quotas.check(role, quota, allocator.quota_consumed(role), others, allocator.capacity())
        except (InvalidInput, ValueError) as error:
            raise OperatorRefused(f"Failed to validate quota: {error}") from error
        return quota

    # -- reservations --------------------------------------------------------------------------------------------------

    def _convert(self, agent_id: str, operation: Json) -> None:
        agent = self._agent(agent_id)
        free = self._state.allocator.free(AgentId(agent.id))
        outcome = converted(operation, self._free_and_offered(agent, free), None, self._state.disks(agent))
        if isinstance(outcome, str):
            raise OperatorRefused(f"Invalid {operation['type']} operation: {outcome}", 409)
        old, new = outcome
        for offer in list(agent.offers.values()):
            if self._state.allocator.free(AgentId(agent.id)).contains(old):
                break
            self._offers.rescind([offer])
        self._state.allocator.convert_free(AgentId(agent.id), old, new)
        self._state.note_conversion(agent, old, new)

    def _free_and_offered(self, agent: Agent, free: Resources) -> Resources:
        for offer in agent.offers.values():
            free += offer.resources.allocated(None)
        return free

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def set_schedule(self, schedule: Json) -> None:
        """Set the maintenance schedule: machines in it are draining, and frameworks get inverse offers for them."""
        self._state.schedule = schedule
        self._state.outbox.saved_registry = True
        for agent in self._state.agents.values():
            self._apply_window(agent)

    def _apply_window(self, agent: Agent) -> None:
        window = next(
            (
                w
                for w in self._state.schedule.get("windows", ())
                if any(_is(agent, m) for m in w.get("machine_ids", ()))
            ),
            None,
        )
        unavailability = None if window is None else window.get("unavailability")
        if unavailability == agent.unavailability:
            return
        agent.unavailability = unavailability
        self._offers.rescind(list(agent.offers.values()))
        for framework in self._state.frameworks.values():
            for offer_id in [key for key, owner in framework.inverse_offers.items() if owner == agent.id]:
                del framework.inverse_offers[offer_id]
                body = {"inverse_offer_id": {"value": offer_id}}
                framework.send({"type": "RESCIND_INVERSE_OFFER", "rescind_inverse_offer": body})
        self._state.allocator.update_unavailability(AgentId(agent.id), _window(unavailability))

    def set_down(self, machines: list[Json] | tuple[Json, ...], now: float, *, down: bool) -> None:
        """Mark machines as down, or up again; a down agent is not offered, and its tasks are killed."""
        for machine in machines:
            known = [other for other in self._state.down_machines if _same(other, machine)]
            if down and not known:
                self._state.down_machines.append(machine)
            for other in [] if down else known:
                self._state.down_machines.remove(other)
            for agent in [agent for agent in self._state.agents.values() if _is(agent, machine)]:
                self._agents.set_deactivated(agent, deactivated=down)
                if down:
                    self._kill_all(agent.id, None, now)
                else:
                    agent.unavailability = None
                    self._state.allocator.update_unavailability(AgentId(agent.id), None)
        self._state.outbox.saved_registry = True

    def _drain(self, body: Json, now: float) -> None:
        agent = self._agent(value_of(body, "agent_id"))
        grace = body.get("max_grace_period")
        longest = None if grace is None else grace.get("seconds", 0) + grace.get("nanos", 0) / 1e9
        agent.is_drained_for_good = body.get("mark_gone", False)
        self._agents.set_deactivated(agent, deactivated=True)
        self._kill_all(agent.id, longest, now)

    def tick(self, now: float) -> None:
        """Mark empty agents gone that were drained for that; set the windows of new agents."""
        for agent in list(self._state.agents.values()):
            if agent.unavailability is None and self._state.schedule:
                self._apply_window(agent)
            if agent.is_drained_for_good and not any(unit.agent_id == agent.id for unit in self._state.units.values()):
                self._agents.remove_agent(agent.id, now, by_operator=True)
                self._state.outbox.saved_registry = True

    def inverse_offers_answered(self, framework: Framework, body: Json, now: float, *, accepted: bool) -> None:
        """Record a framework's answers to inverse offers."""
        status = InverseOfferStatus.ACCEPT if accepted else InverseOfferStatus.DECLINE
        for item in body.get("inverse_offer_ids", ()):
            agent_id = framework.inverse_offers.pop(item.get("value", ""), None)
            if agent_id is not None:
                self._state.allocator.answer_inverse_offer(
                    FrameworkId(framework.id), AgentId(agent_id), status, now=now,
                    refuse_seconds=refuse_seconds(body.get("filters")),
                )  # fmt: skip

    def restore(self, weights: dict[str, float], configs: dict[str, Json], schedule: Json) -> None:
        """Restore weights, quotas and schedule after a restart of the master."""
        for role, weight in weights.items():
            self._state.weights[role] = weight
            self._state.allocator.set_weight(role, weight)
        for role, config in configs.items():
            self._state.quotas[role] = config
            self._state.allocator.set_quota(role, self._quota(config, force=True))
        self._state.schedule = schedule


def old_quota(request: Json) -> Json:
    """Convert a QuotaRequest of the old form, whose guarantee is also the limit."""
    amounts = {item.get("name", ""): item.get("scalar", {"value": 0}) for item in request.get("guarantee", ())}
    return {"role": request.get("role", ""), "guarantees": amounts, "limits": amounts}


def _millis(amounts: Json) -> dict[str, int]:
    return {name: to_millis(amount.get("value", 0)) for name, amount in amounts.items()}


def _window(unavailability: Json | None) -> Unavailability | None:
    if unavailability is None:
        return None
    duration = unavailability.get("duration")
    start = unavailability["start"]["nanoseconds"] / 1e9
    return Unavailability(start, None if duration is None else duration["nanoseconds"] / 1e9)


def _is(agent: Agent, machine: Json) -> bool:
    names = machine.get("hostname", ""), machine.get("ip", "")
    return (
        bool(any(names)) and names[0].lower() in ("", agent.facts.hostname.lower()) and names[1] in ("", agent.facts.ip)
    )


def _same(a: Json, b: Json) -> bool:
    return bool(a.get("hostname", "").lower() == b.get("hostname", "").lower() and a.get("ip", "") == b.get("ip", ""))
