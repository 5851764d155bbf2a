"""The old JSON pages: agents are "slaves", ids are texts, resources are maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strato.api.meta import Json
from strato.interop.mesos.master import views
from strato.interop.mesos.master.model import Agent, Executor, Framework, Task, used_by
from strato.interop.mesos.master.state import VERSION, MasterState
from strato.interop.mesos.resources import NOTHING, Resources, ValueType
from strato.interop.mesos.resourcetext import value_text

_ALWAYS = ("cpus", "gpus", "mem", "disk")
_STATES = ("STAGING", "STARTING", "RUNNING", "KILLING", "FINISHED", "KILLED", "FAILED", "LOST", "ERROR", "UNREACHABLE",
           "DROPPED", "GONE", "GONE_BY_OPERATOR")  # fmt: skip
DEFAULT_TASKS = 100


def resources_map(resources: Resources) -> Json:
    """Return resources as a map by name, which always contains the four common scalars."""
    shown: Json = dict.fromkeys(_ALWAYS, 0)
    for name, amount in resources.non_revocable().scalars().items():
        shown[name] = amount / 1000
    for name, amount in resources.revocable().scalars().items():
        shown[f"{name}_revocable"] = amount / 1000
    for kind, held in resources.allocated(None):
        if kind.type is not ValueType.SCALAR:
            shown[kind.name] = value_text(kind, held)
    return shown


def task(shown: Task) -> Json:
    """Return a task."""
    info = shown.info
    found: Json = {
        "id": shown.id,
        "name": info.get("name", ""),
        "framework_id": shown.framework_id,
        "executor_id": shown.executor_id,
        "slave_id": shown.agent_id,
        "state": shown.state,
        "resources": resources_map(shown.resources),
        "role": shown.role,
        "statuses": [_status(status) for status in shown.statuses],
    }
    if "labels" in info:
        found["labels"] = info["labels"].get("labels", [])
    for name in ("discovery", "container"):
        if name in info:
            found[name] = info[name]
    return found


def _status(status: Json) -> Json:
    kept: Json = {
        name: status[name] for name in ("state", "timestamp", "container_status", "healthy") if name in status
    }
    if "labels" in status:
        kept["labels"] = status["labels"].get("labels", [])
    return kept


def executor(shown: Executor) -> Json:
    """Return an executor."""
    return {
        "executor_id": shown.id,
        "name": shown.info.get("name", ""),
        "framework_id": shown.framework_id,
        "slave_id": shown.agent_id,
        "command": shown.info.get("command", {}),
        "resources": resources_map(shown.resources),
    }


def framework(state: MasterState, shown: Framework) -> Json:
    """Return a framework."""
    info = shown.info
    used = used_by(shown.tasks)
    offered = NOTHING
    for offer in shown.offers.values():
        offered += offer.resources
    found: Json = {
        "id": shown.id,
        "name": info.get("name", ""),
        "used_resources": resources_map(used),
        "offered_resources": resources_map(offered),
        "resources": resources_map(used + offered),
        "capabilities": sorted(shown.capabilities),
        "hostname": info.get("hostname", ""),
        "webui_url": info.get("webui_url", ""),
        "active": shown.is_connected,
        "connected": shown.is_connected,
        "recovered": shown.is_recovered,
        "user": info.get("user", ""),
        "failover_timeout": shown.failover_seconds,
        "checkpoint": info.get("checkpoint", False),
        "registered_time": shown.registered_at,
        "unregistered_time": shown.unregistered_at,
        "principal": shown.principal,
        "tasks": [task(each) for each in shown.tasks.values()],
        "unreachable_tasks": [task(each) for each in shown.unreachable.values()],
        "completed_tasks": [task(each) for each in shown.completed],
        "offers": [_offer(state, each.id, shown) for each in shown.offers.values()],
        "executors": [
            executor(each)
            for agent in state.agents.values()
            for (owner, _), each in agent.executors.items()
            if owner == shown.id
        ],
    }
    if shown.reregistered_at != shown.registered_at:
        found["reregistered_time"] = shown.reregistered_at
    if shown.has("MULTI_ROLE"):
        found["roles"] = list(shown.roles)
    else:
        found["role"] = shown.roles[0]
    return found


def _offer(state: MasterState, offer_id: str, shown: Framework) -> Json:
    offer = shown.offers[offer_id]
    return {
        "id": offer.id,
        "framework_id": shown.id,
        "allocation_info": {"role": offer.role},
        "slave_id": offer.agent_id,
        "resources": resources_map(offer.resources),
    }


def slave(state: MasterState, agent: Agent, used: Resources) -> Json:
    """Return an agent; ``used`` are the resources of its tasks."""
    facts = agent.facts
    return {
        "id": agent.id,
        "hostname": facts.hostname,
        "port": state.identity.port,
        "attributes": dict(facts.attributes),
        "pid": f"slave(1)@{facts.ip}:{state.identity.port}",
        "registered_time": agent.registered_at,
        "resources": resources_map(agent.total),
        "used_resources": resources_map(used),
        "offered_resources": resources_map(views.offered_on(agent)),
        "reserved_resources": {
            role: resources_map(part) for role, part in sorted(views.reserved_by_role(agent.total).items())
        },
        "unreserved_resources": resources_map(agent.total.unreserved()),
        "active": agent.is_offered,
        "deactivated": agent.is_deactivated,
        "version": VERSION,
        "capabilities": views.capabilities(agent),
    }


def slaves(state: MasterState) -> Json:
    """Return ``/slaves``."""
    used = views.used_by_agent(state)
    found = [slave(state, agent, used[agent.id]) for agent in state.agents.values()]
    return {"slaves": found, "recovered_slaves": []}


def frameworks(state: MasterState) -> Json:
    """Return ``/frameworks``."""
    return {
        "frameworks": [framework(state, each) for each in state.frameworks.values()],
        "completed_frameworks": [framework(state, each) for each in state.completed],
        "unregistered_frameworks": [],
    }


def tasks(state: MasterState, query: Mapping[str, Sequence[str]]) -> Json:
    """Return ``/tasks``: the newest first, or the oldest with ``order=asc``."""
    wanted_framework, wanted_task = (query.get(name, [""])[0] for name in ("framework_id", "task_id"))
    found = [
        each
        for owner in views.all_frameworks(state)
        if wanted_framework in ("", owner.id)
        for each in (*owner.tasks.values(), *owner.unreachable.values(), *owner.completed)
        if wanted_task in ("", each.id)
    ]
    found.sort(key=lambda each: each.statuses[0]["timestamp"] if each.statuses else 0.0)
    if query.get("order", ["des"])[0] != "asc":
        found.reverse()
    offset, limit = _number(query, "offset", 0), _number(query, "limit", DEFAULT_TASKS)
    return {"tasks": [task(each) for each in found[offset : offset + limit]]}


def _number(query: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    text = query.get(name, [""])[0]
    return int(text) if text.isdecimal() and len(text) < 10 else default


def roles(state: MasterState) -> Json:
    """Return ``/roles``."""
    found = []
    reserved: dict[str, Resources] = {}
    for agent in state.agents.values():
        for role, part in views.reserved_by_role(agent.total).items():
            reserved[role] = reserved.get(role, NOTHING) + part
    for name in views.known_roles(state):
        allocated, offered, owners = views.allocated_to_role(state, name)
        quota = state.quotas.get(name, {})
        found.append(
            {
                "name": name,
                "weight": state.weights.get(name, 1.0),
                "quota": {
                    "role": name,
                    "guarantee": _amounts(quota.get("guarantees", {})),
                    "limit": _amounts(quota.get("limits", {})),
                    "consumed": _consumed(state, name, allocated + offered),
                },
                "resources": resources_map(allocated + offered),
                "allocated": resources_map(allocated),
                "offered": resources_map(offered),
                "reserved": resources_map(reserved.get(name, NOTHING)),
                "frameworks": owners,
            }
        )
    return {"roles": found}


def _consumed(state: MasterState, role: str, held: Resources) -> Json:
    """Return a top-level role's consumption of its quota; for a role below it, which has no quota, its allocations."""
    if "/" in role:
        return resources_map(held)
    return {name: millis / 1000 for name, millis in state.allocator.quota_consumed(role).items()}


def _amounts(quantities: Json) -> Json:
    return {name: amount.get("value", 0) for name, amount in quantities.items()}


def _head(state: MasterState) -> Json:
    identity = state.identity
    active = sum(agent.is_offered for agent in state.agents.values())
    leader = {"id": identity.id, "pid": identity.pid, "port": identity.port, "hostname": identity.hostname}
    return {
        "version": VERSION,
        "git_sha": "",
        "build_date": "",
        "build_time": 0,
        "build_user": "strato",
        "start_time": identity.started_at,
        "elected_time": identity.started_at,
        "id": identity.id,
        "pid": identity.pid,
        "hostname": identity.hostname,
        "capabilities": [given["type"] for given in identity.to_info()["capabilities"]],
        "activated_slaves": active,
        "deactivated_slaves": len(state.agents) - active,
        "unreachable_slaves": sum(agent.unreachable_at is not None for agent in state.agents.values()),
        "leader": identity.pid,
        "leader_info": leader,
        "cluster": state.options.cluster,
        "flags": dict(views.flags_view(state)),
    }


def whole_state(state: MasterState) -> Json:
    """Return ``/state``."""
    return {**_head(state), **slaves(state), **frameworks(state), "orphan_tasks": []}


def summary(state: MasterState) -> Json:
    """Return ``/state-summary``: agents and frameworks with counts of their tasks."""
    short = {"hostname": state.identity.hostname, "cluster": state.options.cluster}
    found_slaves = []
    used = views.used_by_agent(state)
    tasks_by_agent: dict[str, list[Task]] = {agent_id: [] for agent_id in state.agents}
    for unit in state.units.values():
        tasks_by_agent.setdefault(unit.agent_id, []).extend(unit.tasks)
    for agent in state.agents.values():
        own = tasks_by_agent[agent.id]
        found_slaves.append(
            {
                **slave(state, agent, used[agent.id]),
                **_counts(own),
                "framework_ids": sorted({t.framework_id for t in own}),
            }
        )
    found_frameworks = []
    for each in state.frameworks.values():
        everything = [*each.tasks.values(), *each.unreachable.values(), *each.completed]
        shown = framework(state, each)
        for name in ("tasks", "unreachable_tasks", "completed_tasks", "offers", "executors"):
            del shown[name]
        owners = sorted({own.agent_id for own in each.tasks.values()})
        found_frameworks.append({**shown, **_counts(everything), "slave_ids": owners})
    return {**short, "slaves": found_slaves, "frameworks": found_frameworks}


def _counts(tasks_of: Sequence[Task]) -> Json:
    counts = dict.fromkeys((f"TASK_{name}" for name in _STATES), 0)
    for each in tasks_of:
        if each.state in counts:
            counts[each.state] += 1
    return counts
