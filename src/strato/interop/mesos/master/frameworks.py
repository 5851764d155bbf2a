"""Frameworks subscribe, disconnect, reconnect in time or are removed."""

from __future__ import annotations

from strato.api.meta import Json
from strato.errors import InvalidInput, StratoError
from strato.interop.mesos import constraints
from strato.interop.mesos.master import frameworkinfo
from strato.interop.mesos.master.effects import Kill
from strato.interop.mesos.master.executors import Executors, of_framework
from strato.interop.mesos.master.model import Framework, Stream
from strato.interop.mesos.master.offers import Offers
from strato.interop.mesos.master.state import HEARTBEAT_SECONDS, MasterState
from strato.interop.mesos.master.updates import Updates
from strato.interop.mesos.master.views import framework_json
from strato.interop.mesos.quantities import Quantities, to_millis
from strato.interop.mesos.specs import FrameworkId, FrameworkSpec

_KILL_SECONDS = 3.0


class UpdateRefused(StratoError):
    """An UPDATE_FRAMEWORK is refused with status 400."""


class Frameworks:
    """Handles subscriptions, updates and removals of frameworks."""

    def __init__(self, state: MasterState, offers: Offers, updates: Updates, executors: Executors) -> None:
        self._state, self._offers, self._updates, self._executors = state, offers, updates, executors

    # -- subscription
    # -----------------------------------------------------------------------------------------------------

    def subscribe(self, call: Json, stream: Stream, stream_id: str, principal: str, now: float) -> Framework | None:
        """Handle a SUBSCRIBE; on refusal send an ERROR on the stream, end it, and return None."""
        body: Json = call["subscribe"]
        info: Json = dict(body["framework_info"])
        suppressed = frozenset(body.get("suppressed_roles", ()))
        known = self._state.frameworks.get(call.get("framework_id", {}).get("value", ""))
        problem = self._problem(info, suppressed, body.get("offer_constraints"), known, principal)
        if problem is not None:
            stream.send({"type": "ERROR", "error": {"message": problem}})
            stream.finish(delayed=True)
            return None
        if principal and not info.get("principal"):
            info["principal"] = principal
        if known is None:
            framework = self._added(info, suppressed, body.get("offer_constraints"), now)
        else:
            framework = known
            self._come_back(framework, info, now)
            framework.suppressed, framework.constraints = suppressed, body.get("offer_constraints")
        framework.principal = framework.info.get("principal", "")
        framework.stream, framework.stream_id = stream, stream_id
        framework.disconnected_at = framework.deadline = None
        framework.is_recovered = False
        identifier = FrameworkId(framework.id)
        if known is None:
            self._state.allocator.add_framework(identifier, self.spec(framework))
        else:
            self._state.allocator.update_framework(identifier, self.spec(framework))
            self._state.allocator.activate_framework(identifier)
        self._state.outbox.saved_frameworks[framework.id] = None
        stream.send(
            {
                "type": "SUBSCRIBED",
                "subscribed": {
                    "framework_id": {"value": framework.id},
                    "heartbeat_interval_seconds": HEARTBEAT_SECONDS,
                    "master_info": self._state.identity.to_info(),
                },
            }
        )
        stream.send({"type": "HEARTBEAT"})
        self._notify("FRAMEWORK_ADDED" if known is None else "FRAMEWORK_UPDATED", framework)
        self._updates.resend(framework, now)
        return framework

    def _problem(
        self, info: Json, suppressed: frozenset[str], limits: Json | None, known: Framework | None, principal: str
    ) -> str | None:
        options = self._state.options
        identifier = info.get("id", {}).get("value", "")
        if any(gone.id == identifier for gone in self._state.completed):
            return "Framework has been removed"
        wrong = frameworkinfo.problem_of_info(info, options.roles, root_allowed=options.root_submissions)
        if wrong is not None:
            return wrong
        multi = any(given.get("type") == "MULTI_ROLE" for given in info.get("capabilities", ()))
        subscribed = frameworkinfo.subscribed_roles(info, multi=multi)
        wrong = frameworkinfo.problem_of_suppressed(suppressed, subscribed)
        if wrong is not None:
            return wrong
        given_principal = info.get("principal", principal)
        if known is not None and known.info.get("principal", "") != given_principal:
            return "Changing framework's principal is not allowed."
        return _problem_of_constraints(limits, subscribed)

    def _added(self, info: Json, suppressed: frozenset[str], limits: Json | None, now: float) -> Framework:
        identifier = info.get("id", {}).get("value", "")
        if not identifier:
            identifier = f"{self._state.identity.id}-{self._state.next_number('frameworks'):04d}"
        info["id"] = {"value": identifier}
        framework = Framework(identifier, info, now, now, suppressed, limits)
        self._state.frameworks[identifier] = framework
        return framework

    def _come_back(self, framework: Framework, info: Json, now: float) -> None:
        old = framework.stream
        if old is not None:
            framework.stream = None
            self._withdraw(framework)
            old.send({"type": "ERROR", "error": {"message": "Framework failed over"}})
            old.finish()
        framework.info = frameworkinfo.changed(framework.info, info)
        framework.reregistered_at = now

    def restore(self, framework: Framework, now: float) -> None:
        """Restore a framework from before the master's restart; it has some time to reconnect."""
        framework.is_recovered = True
        framework.disconnected_at = now
        framework.deadline = now + max(framework.failover_seconds, self._state.options.reregister_seconds)
        self._state.frameworks[framework.id] = framework
        self._state.allocator.add_framework(FrameworkId(framework.id), self.spec(framework), active=False)

    def spec(self, framework: Framework) -> FrameworkSpec:
        """Return a framework's spec for the allocator."""
        roles = tuple(framework.roles)
        return FrameworkSpec(
            roles=roles,
            suppressed_roles=framework.suppressed & frozenset(roles),
            capabilities=framework.capabilities,
            min_allocatable=_minimums(framework.info.get("offer_filters", {})),
            offer_constraints=constraints.from_json(framework.constraints, roles),
        )

    # -- updates -------------------------------------------------------------------------------------------------------

    def update(self, framework: Framework, body: Json, now: float) -> None:
        """Handle an UPDATE_FRAMEWORK.

        Raises:
            UpdateRefused: The update is not valid.
        """
        info: Json = dict(body["framework_info"])
        options = self._state.options
        wrong = frameworkinfo.problem_of_info(info, options.roles, root_allowed=options.root_submissions)
        if wrong is not None:
            raise UpdateRefused(f"Supplied FrameworkInfo is not valid: {wrong}")
        if framework.principal and info.get("principal", framework.principal) != framework.principal:
            raise UpdateRefused("FrameworkInfo update is not valid: Changing framework's principal is not allowed.")
        wrong = frameworkinfo.problem_of_change(framework.info, info)
        if wrong is not None:
            raise UpdateRefused(f"FrameworkInfo update is not valid: {wrong}")
        suppressed = frozenset(body.get("suppressed_roles", ()))
        multi = any(given.get("type") == "MULTI_ROLE" for given in info.get("capabilities", ()))
        subscribed = frameworkinfo.subscribed_roles(info, multi=multi)
        wrong = frameworkinfo.problem_of_suppressed(suppressed, subscribed) or _problem_of_constraints(
            body.get("offer_constraints"), subscribed
        )
        if wrong is not None:
            raise UpdateRefused(f"'UpdateFramework' call is not valid: {wrong}")
        framework.info = frameworkinfo.changed(framework.info, info)
        framework.suppressed, framework.constraints = suppressed, body.get("offer_constraints")
        gone = [offer for offer in framework.offers.values() if offer.role not in subscribed]
        self._offers.rescind(gone)
        self._state.allocator.update_framework(FrameworkId(framework.id), self.spec(framework))
        self._state.outbox.saved_frameworks[framework.id] = None
        self._notify("FRAMEWORK_UPDATED", framework)

    def _notify(self, kind: str, framework: Framework) -> None:
        if self._state.listeners:
            body = {"framework": framework_json(framework)}
            self._state.notify({"type": kind, kind.lower(): body})

    # -- removal -------------------------------------------------------------------------------------------------------

    def disconnect(self, framework: Framework, stream: Stream, now: float) -> None:
        """Handle the end of a framework's stream; it has its failover timeout to reconnect."""
        if framework.stream is not stream:
            return
        framework.stream = None
        self._withdraw(framework)
        self._state.allocator.deactivate_framework(FrameworkId(framework.id))
        framework.disconnected_at = now
        framework.deadline = now + max(framework.failover_seconds, 0.0)
        if framework.failover_seconds <= 0:
            self.remove(framework, now)
        else:
            self._state.outbox.saved_frameworks[framework.id] = None
            self._notify("FRAMEWORK_UPDATED", framework)

    def _withdraw(self, framework: Framework) -> None:
        for offer in list(framework.offers.values()):
            self._offers.recover(offer)
        framework.inverse_offers.clear()

    def expire(self, now: float) -> None:
        """Remove the frameworks whose time to reconnect is over."""
        for framework in list(self._state.frameworks.values()):
            if framework.deadline is not None and now >= framework.deadline and not framework.is_connected:
                self.remove(framework, now)

    def remove(self, framework: Framework, now: float) -> None:
        """Remove a framework for good: kill its tasks, and never accept its id again."""
        for offer in list(framework.offers.values()):
            self._offers.recover(offer)
        for executor in of_framework(self._state, framework):
            self._executors.shut_down(executor)
        for task in list(framework.tasks.values()):
            if not task.is_terminal:
                task.state = "TASK_KILLED"
                task.statuses.append(
                    {"task_id": {"value": task.id}, "agent_id": {"value": task.agent_id}, "state": task.state,
                     "source": "SOURCE_MASTER", "reason": "REASON_FRAMEWORK_REMOVED", "timestamp": now,
                     "message": f"Framework {framework.id} removed"}
                )  # fmt: skip
            self._offers.give_back(task)
            framework.completed.append(task)
        framework.tasks.clear()
        for unit in [unit for unit in self._state.units.values() if unit.framework_id == framework.id]:
            own = unit.executor
            if own is not None:
                agent = self._state.agents.get(own.agent_id)
                if agent is not None:
                    agent.executors.pop((framework.id, own.id), None)
                    self._state.outbox.held_agents[agent.id] = None
                self._offers.restore(framework.id, own.agent_id, unit.role, own.resources)
            self._state.outbox.kills.append(Kill(unit.name, _KILL_SECONDS))
            self._updates.let_go(unit.name)
        self._state.allocator.remove_framework(FrameworkId(framework.id))
        self._state.frameworks.pop(framework.id, None)
        framework.unregistered_at = now
        self._state.completed.append(framework)
        self._state.outbox.saved_frameworks.pop(framework.id, None)
        self._state.outbox.removed_frameworks[framework.id] = None
        self._state.outbox.offered.pop(framework.id, None)
        if framework.stream is not None:
            framework.stream.finish()
            framework.stream = None
        if self._state.listeners:
            body = {"framework_info": framework.info}
            self._state.notify({"type": "FRAMEWORK_REMOVED", "framework_removed": body})


def _problem_of_constraints(limits: Json | None, subscribed: tuple[str, ...]) -> str | None:
    try:
        constraints.from_json(limits, subscribed)
    except InvalidInput as error:
        return "Offer constraints are invalid: " + "; ".join(f"{one.where}: {one.message}" for one in error.problems)
    return None


def _minimums(filters: Json) -> dict[str, tuple[Quantities, ...]]:
    """Convert offer filters for the allocator: the alternatives of a minimum, by role."""
    found: dict[str, tuple[Quantities, ...]] = {}
    for role, given in filters.items():
        minimum = given.get("min_allocatable_resources")
        if minimum is not None:
            found[role] = tuple(
                {name: to_millis(amount.get("value", 0)) for name, amount in one.get("quantities", {}).items()}
                for one in minimum.get("quantities", ())
            )
    return found
