"""Views of the v1 operator API: agents, frameworks, tasks, executors, roles, quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strato.api.meta import Json
from strato.interop.mesos.master.model import Agent, Framework, Task, used_by
from strato.interop.mesos.master.state import VERSION, MasterState
from strato.interop.mesos.resourcejson import to_json
from strato.interop.mesos.resources import NOTHING, ResourceKind, Resources, ValueType

_CAPABILITIES = (
    "MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT", "AGENT_OPERATION_FEEDBACK", "AGENT_DRAINING",
    "TASK_RESOURCE_LIMITS",
)  # fmt: skip


def capabilities(agent: Agent) -> list[str]:
    """Return an agent's capabilities."""
    return [*_CAPABILITIES, *(["RESIZE_VOLUME"] if agent.facts.gives_volumes else [])]


def instant(seconds: float) -> Json:
    """Return a time as TimeInfo."""
    return {"nanoseconds": int(seconds * 1e9)}


def task_json(task: Task) -> Json:
    """Return a task as the v1 Task."""
    info = task.info
    shown: Json = {
        "name": info.get("name", ""),
        "task_id": {"value": task.id},
        "framework_id": {"value": task.framework_id},
        "agent_id": {"value": task.agent_id},
        "state": task.state,
        "resources": to_json(task.resources),
        "statuses": [{name: value for name, value in status.items() if name != "uuid"} for status in task.statuses],
    }
    if task.executor_id:
        shown["executor_id"] = {"value": task.executor_id}
    if task.statuses:
        newest = task.statuses[-1]
        shown["status_update_state"] = newest["state"]
        if "uuid" in newest:
            shown["status_update_uuid"] = newest["uuid"]
    for name in ("labels", "discovery", "container", "health_check", "kill_policy", "max_completion_time"):
        if name in info:
            shown[name] = info[name]
    user = info.get("command", {}).get("user")
    if user:
        shown["user"] = user
    return shown


def framework_json(framework: Framework) -> Json:
    """Return a framework as the v1 Framework of GET_FRAMEWORKS."""
    offered = NOTHING
    for offer in framework.offers.values():
        offered += offer.resources
    shown: Json = {
        "framework_info": framework.info,
        "active": framework.is_connected,
        "connected": framework.is_connected,
        "recovered": framework.is_recovered,
        "registered_time": instant(framework.registered_at),
        "reregistered_time": instant(framework.reregistered_at),
        "allocated_resources": to_json(used_by(framework.tasks)),
        "offered_resources": to_json(offered),
        "offers": [
            {
                "id": {"value": offer.id},
                "framework_id": {"value": framework.id},
                "agent_id": {"value": offer.agent_id},
                "hostname": "",
                "resources": to_json(offer.resources),
                "allocation_info": {"role": offer.role},
            }
            for offer in framework.offers.values()
        ],
    }
    if framework.unregistered_at:
        shown["unregistered_time"] = instant(framework.unregistered_at)
    return shown


def agent_json(state: MasterState, agent: Agent, used: Resources = NOTHING) -> Json:
    """Return an agent as the v1 Agent of GET_AGENTS; ``used`` are the resources of its tasks."""
    from strato.interop.mesos.master.executors import agent_info

    return {
        "agent_info": agent_info(agent, state.identity.port),
        "active": agent.is_offered,
        "deactivated": agent.is_deactivated,
        "version": VERSION,
        "pid": f"slave(1)@{agent.facts.ip}:{state.identity.port}",
        "registered_time": instant(agent.registered_at),
        "total_resources": to_json(agent.total),
        "allocated_resources": to_json(used),
        "offered_resources": to_json(offered_on(agent)),
        "capabilities": [{"type": name} for name in capabilities(agent)],
    }


def used_by_agent(state: MasterState) -> dict[str, Resources]:
    """Return the resources that tasks and executors hold on each agent, in one pass over all tasks."""
    found = dict.fromkeys(state.agents, NOTHING)
    for unit in state.units.values():
        if unit.agent_id in found:
            for task in unit.tasks:
                if task.has_resources:
                    found[unit.agent_id] += task.resources
            if unit.executor is not None:
                found[unit.agent_id] += unit.executor.resources
    return found


def offered_on(agent: Agent) -> Resources:
    """Return the offered resources of an agent."""
    total = NOTHING
    for offer in agent.offers.values():
        total += offer.resources
    return total


def all_frameworks(state: MasterState) -> list[Framework]:
    """Return present and completed frameworks."""
    return [*state.frameworks.values(), *state.completed]


def tasks_view(state: MasterState) -> Json:
    """Return GET_TASKS."""
    frameworks = all_frameworks(state)
    running = [task for framework in frameworks for task in framework.tasks.values()]
    return _without_empty(
        {
            "tasks": [task_json(task) for task in running],
            "unreachable_tasks": [task_json(t) for framework in frameworks for t in framework.unreachable.values()],
            "completed_tasks": [task_json(task) for framework in frameworks for task in framework.completed],
        }
    )


def frameworks_view(state: MasterState) -> Json:
    """Return GET_FRAMEWORKS."""
    return _without_empty(
        {
            "frameworks": [framework_json(framework) for framework in state.frameworks.values()],
            "completed_frameworks": [framework_json(framework) for framework in state.completed],
        }
    )


def agents_view(state: MasterState) -> Json:
    """Return GET_AGENTS."""
    used = used_by_agent(state)
    return _without_empty({"agents": [agent_json(state, agent, used[agent.id]) for agent in state.agents.values()]})


def executors_view(state: MasterState) -> Json:
    """Return GET_EXECUTORS."""
    found = [
        {"executor_info": executor.info, "agent_id": {"value": agent.id}}
        for agent in state.agents.values()
        for executor in agent.executors.values()
    ]
    return _without_empty({"executors": found})


def state_view(state: MasterState) -> Json:
    """Return GET_STATE."""
    return {
        "get_tasks": tasks_view(state),
        "get_executors": executors_view(state),
        "get_frameworks": frameworks_view(state),
        "get_agents": agents_view(state),
    }


def reserved_by_role(resources: Resources) -> dict[str, Resources]:
    """Return the reserved ones among resources, by role."""
    found: dict[str, Resources] = {}
    for kind, amount in resources:
        if kind.reservations:
            found[kind.role] = found.get(kind.role, NOTHING) + Resources({kind: amount})
    return found


def known_roles(state: MasterState) -> list[str]:
    """Return the roles that a framework, reservation, weight or quota mentions, and `*`."""
    named = {"*", *state.weights, *state.quotas}
    for agent in state.agents.values():
        named.update(reserved_by_role(agent.total))
    for framework in state.frameworks.values():
        named.update(framework.roles)
        named.update(task.role for task in framework.tasks.values())
    return sorted(named)


def allocated_to_role(state: MasterState, role: str) -> tuple[Resources, Resources, list[str]]:
    """Return the resources of a role's tasks, its offered resources, and its frameworks."""
    allocated, offered, frameworks = NOTHING, NOTHING, []
    for framework in state.frameworks.values():
        if role in framework.roles:
            frameworks.append(framework.id)
        for task in framework.tasks.values():
            if task.role == role and task.has_resources:
                allocated += task.resources
        for offer in framework.offers.values():
            if offer.role == role:
                offered += offer.resources
    return allocated, offered, frameworks


def roles_view(state: MasterState) -> Json:
    """Return GET_ROLES."""
    found = []
    for role in known_roles(state):
        allocated, offered, frameworks = allocated_to_role(state, role)
        shown: Json = {"name": role, "weight": state.weights.get(role, 1.0)}
        shown["frameworks"] = [{"value": name} for name in frameworks]
        shown["resources"] = to_json((allocated + offered).allocated(None))
        found.append(_without_empty(shown))
    return {"roles": found}


def weights_view(state: MasterState) -> Json:
    """Return GET_WEIGHTS."""
    return _without_empty(
        {"weight_infos": [{"role": role, "weight": weight} for role, weight in sorted(state.weights.items())]}
    )


def quota_view(state: MasterState) -> Json:
    """Return GET_QUOTA."""
    configs = [quota for _, quota in sorted(state.quotas.items())]
    infos = [
        {
            "role": quota["role"],
            "guarantee": [
                {"name": name, "type": "SCALAR", "scalar": amount}
                for name, amount in quota.get("guarantees", {}).items()
            ],
        }
        for quota in configs
    ]
    return {"status": _without_empty({"infos": infos, "configs": configs})}


def version_view(state: MasterState) -> Json:
    """Return the version as VersionInfo."""
    return {"version": VERSION, "build_date": "", "build_time": 0.0, "build_user": "strato"}


def flags_view(state: MasterState) -> list[tuple[str, str]]:
    """Return the supported flags of Mesos, with their values."""
    options = state.options
    flags = [
        ("allocation_interval", f"{options.allocation_interval_seconds:g}secs"),
        ("cluster", options.cluster),
        ("filter_gpu_resources", str(options.filter_gpu_resources).lower()),
        ("ip", state.identity.ip),
        ("min_allocatable_resources", "|".join(options.min_allocatable_resources)),
        ("port", str(state.identity.port)),
        ("role_sorter", "drf"),
        ("framework_sorter", "drf"),
        ("root_submissions", str(options.root_submissions).lower()),
    ]
    if options.offer_timeout_seconds is not None:
        flags.append(("offer_timeout", f"{options.offer_timeout_seconds:g}secs"))
    if options.roles:
        flags.append(("roles", ",".join(sorted(options.roles))))
    return flags


def metrics_view(state: MasterState, now: float) -> dict[str, float]:
    """Return the metrics by Mesos' names."""
    found = {
        "master/uptime_secs": now - state.identity.started_at,
        "master/elected": 1.0,
        "master/slaves_connected": float(sum(agent.is_connected for agent in state.agents.values())),
        "master/slaves_active": float(sum(agent.is_offered for agent in state.agents.values())),
        "master/slaves_disconnected": float(sum(not agent.is_connected for agent in state.agents.values())),
        "master/frameworks_connected": float(sum(each.is_connected for each in state.frameworks.values())),
        "master/frameworks_disconnected": float(sum(not each.is_connected for each in state.frameworks.values())),
        "master/outstanding_offers": float(sum(len(each.offers) for each in state.frameworks.values())),
    }
    found.update((f"master/{name}", float(count)) for name, count in sorted(state.counters.items()))
    total, used = _totals(state)
    for name in ("cpus", "mem", "disk", "gpus"):
        whole, part = total.scalar(name) or 0.0, used.scalar(name) or 0.0
        found[f"master/{name}_total"], found[f"master/{name}_used"] = whole, part
        found[f"master/{name}_percent"] = part / whole if whole else 0.0
    return found


def _totals(state: MasterState) -> tuple[Resources, Resources]:
    total = used = NOTHING
    for agent in state.agents.values():
        total += agent.total.filter(_is_scalar)
    for held in used_by_agent(state).values():
        used += held.filter(_is_scalar).allocated(None)
    return total, used


def _is_scalar(kind: ResourceKind) -> bool:
    return kind.type is ValueType.SCALAR


def _without_empty(fields: Json) -> Json:
    """Drop empty lists, as Mesos' JSON does."""
    return {name: value for name, value in fields.items() if value != []}


def answer(state: MasterState, call: Json, now: float) -> Json | None:
    """Return the answer to a call that only reads; None for other calls."""
    kind = call["type"]
    if kind == "GET_METRICS":
        metrics = [{"name": name, "value": value} for name, value in metrics_view(state, now).items()]
        return {"type": kind, "get_metrics": {"metrics": metrics}}
    view = _VIEWS.get(kind)
    return None if view is None else {"type": kind, kind.lower(): view(state)}


def maintenance_status(state: MasterState) -> Json:
    """Return GET_MAINTENANCE_STATUS."""
    draining = [
        {"id": {"hostname": agent.facts.hostname, "ip": agent.facts.ip}}
        for agent in state.agents.values()
        if agent.unavailability is not None
    ]
    return {"status": _without_empty({"draining_machines": draining, "down_machines": state.down_machines})}


def _named(items: Iterable[tuple[str, str]]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in items]


_VIEWS: dict[str, Callable[[MasterState], Json]] = {
    "GET_HEALTH": lambda state: {"healthy": True},
    "GET_VERSION": lambda state: {"version_info": version_view(state)},
    "GET_FLAGS": lambda state: {"flags": _named(flags_view(state))},
    "GET_LOGGING_LEVEL": lambda state: {"level": 0},
    "GET_MASTER": lambda state: {
        "master_info": state.identity.to_info(),
        "start_time": state.identity.started_at,
        "elected_time": state.identity.started_at,
    },
    "GET_AGENTS": agents_view,
    "GET_FRAMEWORKS": frameworks_view,
    "GET_TASKS": tasks_view,
    "GET_EXECUTORS": executors_view,
    "GET_OPERATIONS": lambda state: {},
    "GET_ROLES": roles_view,
    "GET_WEIGHTS": weights_view,
    "GET_QUOTA": quota_view,
    "GET_STATE": state_view,
    "GET_MAINTENANCE_STATUS": maintenance_status,
    "GET_MAINTENANCE_SCHEDULE": lambda state: {"schedule": state.schedule},
}
