"""Offers: created from allocations, announced once their resources are held on the node, and rescinded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from strato.api.meta import Json
from strato.interop.mesos.filters import refuse_seconds
from strato.interop.mesos.master.model import Agent, Framework, Offer, Task
from strato.interop.mesos.master.state import MasterState
from strato.interop.mesos.resourcejson import to_json
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.specs import AgentId, FrameworkId


class Offers:
    """Maintains the offers of all frameworks."""

    def __init__(self, state: MasterState) -> None:
        self._state = state

    # -- creation
    # ----------------------------------------------------------------------------------------------------------

    def allocate(self, now: float, *, batch: bool) -> None:
        """Run the allocator and create offers, which are announced once their resources are held.

        Args:
            now: The instant.
            batch: Whether to run over all agents, not only those that have changed.
        """
        state = self._state
        run = state.allocator.allocate if batch else state.allocator.allocate_pending
        offered = run(now)
        for given in offered.offers:
            framework, agent = state.frameworks[given.framework], state.agents[given.agent]
            number = state.next_number("offers")
            resources = given.resources.allocated(given.role)
            offer = Offer(f"{state.identity.id}-O{number}", framework.id, agent.id, given.role, resources, made_at=now)
            framework.offers[offer.id] = agent.offers[offer.id] = offer
            state.outbox.held_agents[agent.id] = None
            state.outbox.offered.setdefault(framework.id, []).append(offer.id)
        for asked in offered.inverse_offers:
            self._ask(state.frameworks[asked.framework], state.agents[asked.agent])

    def _ask(self, framework: Framework, agent: Agent) -> None:
        """Send an inverse offer."""
        number = self._state.next_number("offers")
        offer_id = f"{self._state.identity.id}-O{number}"
        framework.inverse_offers[offer_id] = agent.id
        shown: Json = {"id": {"value": offer_id}, "framework_id": {"value": framework.id}}
        shown["agent_id"] = {"value": agent.id}
        shown["url"] = self._url(agent)
        shown["unavailability"] = agent.unavailability or {"start": {"nanoseconds": 0}}
        framework.send({"type": "INVERSE_OFFERS", "inverse_offers": {"inverse_offers": [shown]}})

    def _url(self, agent: Agent) -> Json:
        facts = agent.facts
        address = {"hostname": facts.hostname, "ip": facts.ip, "port": self._state.identity.port}
        return {"scheme": self._state.identity.scheme, "address": address, "path": f"/slave({facts.node})"}

    def announce(self, framework_id: str, offer_ids: Iterable[str]) -> None:
        """Send a framework those offers of one allocation that still exist."""
        framework = self._state.frameworks.get(framework_id)
        if framework is None:
            return
        offers = [framework.offers[offer_id] for offer_id in offer_ids if offer_id in framework.offers]
        if not offers:
            return
        for offer in offers:
            offer.is_announced = True
            self._state.count("offers_sent")
        shown = [self.to_json(offer) for offer in offers]
        framework.send({"type": "OFFERS", "offers": {"offers": shown}})

    def to_json(self, offer: Offer) -> Json:
        """Return an offer as its framework sees it."""
        framework, agent = self._state.frameworks[offer.framework_id], self._state.agents[offer.agent_id]
        facts = agent.facts
        multi = framework.has("MULTI_ROLE")
        resources = offer.resources if multi else offer.resources.allocated(None)
        shown: Json = {
            "id": {"value": offer.id},
            "framework_id": {"value": framework.id},
            "agent_id": {"value": agent.id},
            "hostname": facts.hostname,
            "url": self._url(agent),
            "resources": to_json(resources, framework.has("RESERVATION_REFINEMENT")),
        }
        shown.update(agent_extras(agent))
        executors = [{"value": name} for owner, name in agent.executors if owner == framework.id]
        if executors:
            shown["executor_ids"] = executors
        if agent.unavailability is not None:
            shown["unavailability"] = agent.unavailability
        if multi:
            shown["allocation_info"] = {"role": offer.role}
        return shown

    # -- removal -------------------------------------------------------------------------------------------------------

    def take(self, offer: Offer) -> None:
        """Remove an offer; its resources stay allocated until they are used or freed."""
        self._state.frameworks[offer.framework_id].offers.pop(offer.id, None)
        self._state.agents[offer.agent_id].offers.pop(offer.id, None)
        self._state.outbox.held_agents[offer.agent_id] = None

    def recover(self, offer: Offer, refusal: float | None = None, now: float = 0.0) -> None:
        """Remove an offer and free its resources, with a filter of ``refusal`` seconds from now or without one."""
        self.take(offer)
        self.restore(offer.framework_id, offer.agent_id, offer.role, offer.resources, refusal, now)

    def restore(
        self,
        framework_id: str,
        agent_id: str,
        role: str,
        resources: Resources,
        refusal: float | None = None,
        now: float = 0.0,
    ) -> None:
        """Return resources to the allocator, with a filter or without."""
        if resources:
            self._state.allocator.recover_resources(
                FrameworkId(framework_id), AgentId(agent_id), role, resources, now=now, refuse_seconds=refusal
            )

    def rescind(self, offers: Sequence[Offer]) -> None:
        """Remove offers and send RESCIND for them."""
        for offer in offers:
            framework = self._state.frameworks[offer.framework_id]
            self.recover(offer)
            if offer.is_announced:
                self._state.count("offers_rescinded")
                framework.send({"type": "RESCIND", "rescind": {"offer_id": {"value": offer.id}}})

    def decline(self, framework: Framework, offer_ids: Iterable[Json], filters: Json | None, now: float) -> None:
        """Free declined offers with a filter; unknown ids are ignored."""
        seconds = refuse_seconds(filters)
        for item in offer_ids:
            offer = framework.offers.get(item.get("value", ""))
            if offer is not None:
                self._state.count("offers_declined")
                self.recover(offer, seconds, now)

    def expire(self, now: float) -> None:
        """Rescind offers that were not answered in time."""
        longest = self._state.options.offer_timeout_seconds
        if longest is None:
            return
        for framework in list(self._state.frameworks.values()):
            self.rescind([offer for offer in list(framework.offers.values()) if now - offer.made_at >= longest])

    def give_back(self, task: Task) -> None:
        """Free a task's resources; repeated calls do nothing."""
        if task.has_resources:
            task.has_resources = False
            self.restore(task.framework_id, task.agent_id, task.role, task.resources)
            self._state.outbox.held_agents[task.agent_id] = None

    # -- held resources
    # ----------------------------------------------------------------------------------------------------------

    def held(self, agent: Agent) -> Resources:
        """Return the resources to be held by an annotation of the agent's node, because no pod requests them.

        These are those of offers, of pods not created yet, and of executors' tasks except the first one, whose
        resources the executor's pod requests.
        """
        total = NOTHING
        for offer in agent.offers.values():
            total += offer.resources.allocated(None)
        for resources in agent.starting.values():
            total += resources
        for executor in agent.executors.values():
            unit = self._state.units.get(executor.unit)
            asked = unit.pod_resources if unit is not None else NOTHING
            used = executor.resources.allocated(None)
            for task in executor.tasks.values():
                if task.has_resources:
                    used += task.resources.allocated(None)
            total += used - asked
        return total


def agent_extras(agent: Agent) -> Json:
    """Return those of the fields attributes and domain that an agent has."""
    facts = agent.facts
    shown: Json = {}
    if facts.attributes:
        shown["attributes"] = [
            {"name": name, "type": "TEXT", "text": {"value": value}} for name, value in facts.attributes
        ]
    if facts.region:
        shown["domain"] = {"fault_domain": {"region": {"name": facts.region}, "zone": {"name": facts.zone}}}
    return shown
