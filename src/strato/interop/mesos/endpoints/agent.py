"""``POST /slave(NODE)/api/v1``: the operator API of agents, which the master serves for all of them.

Only calls that read are supported. Calls that launch, attach to or kill containers are refused, as containers are pods
that only frameworks' calls create.
"""

from __future__ import annotations

from collections.abc import Callable

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.endpoints import files
from strato.interop.mesos.endpoints.negotiation import answer_type, not_acceptable, read, refused
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master import views
from strato.interop.mesos.master.calls import InvalidCall, check_body, kind_of
from strato.interop.mesos.master.executors import agent_info
from strato.interop.mesos.master.model import Agent, Task
from strato.interop.mesos.master.sandboxes import executor_of
from strato.interop.mesos.master.state import MasterState, Unit
from strato.interop.mesos.wire import message

_OF_THE_MASTER = frozenset(("GET_HEALTH", "GET_FLAGS", "GET_VERSION", "GET_METRICS", "GET_LOGGING_LEVEL"))
_WITH_BODIES = frozenset(("LIST_FILES", "READ_FILE"))


async def handle(serving: Serving, request: Request, agent: Agent) -> Response:
    """Answer an operator's request.

    Raises:
        Refused: Holds the response to send.
    """
    call, _ = read(request, message("agent.Call"))
    kind = _check(call)
    content_type = answer_type(request)
    if content_type is None:
        raise not_acceptable()
    state = serving.master.state
    if kind in _OF_THE_MASTER:
        shown = views.answer(state, call, serving.now())
    elif kind in _VIEWS:
        shown = {"type": kind, kind.lower(): _VIEWS[kind](state, agent, call)}
    elif kind == "SET_LOGGING_LEVEL":
        return Response(200, content_type=content_type)
    else:
        shown = await files.answer(serving.files, state, call, agent.id)
    if shown is None:
        raise refused(501, f"Call {kind} is not supported: containers are pods, which frameworks launch and kill")
    return Response(200, message("agent.Response").encode(shown, content_type), content_type)


def _check(call: Json) -> str:
    try:
        kind = kind_of("agent.Call", call)
        if kind in _WITH_BODIES:
            check_body(call, kind.lower())
    except InvalidCall as error:
        raise refused(400, f"Failed to validate agent::Call: {error}") from error
    return kind


# -- views -------------------------------------------------------------------------------------------------------------


def _containers(state: MasterState, agent: Agent, call: Json) -> Json:
    nested = call.get("get_containers", {}).get("show_nested", False)
    found = []
    for unit in state.units_on(agent.id):
        found.append(_container(unit, {"value": unit.name}, unit.tasks[0] if unit.tasks else None))
        if unit.is_group and nested:
            for position, task in enumerate(unit.tasks):
                container = {"value": f"task-{position}", "parent": {"value": unit.name}}
                found.append(_container(unit, container, task))
    return {"containers": found} if found else {}


def _container(unit: Unit, container: Json, task: Task | None) -> Json:
    status: Json = {"container_id": container}
    for seen in task.statuses if task is not None else ():
        if "network_infos" in seen.get("container_status", {}):
            status["network_infos"] = seen["container_status"]["network_infos"]
    info = unit.executor.info if unit.executor is not None else unit.default_executor or {}
    return {
        "framework_id": {"value": unit.framework_id},
        "executor_id": {"value": executor_of(unit)},
        "executor_name": info.get("name", ""),
        "container_id": container,
        "container_status": status,
    }


def _tasks(state: MasterState, agent: Agent, call: Json) -> Json:
    del call
    found: dict[str, list[Json]] = {}
    for framework in views.all_frameworks(state):
        for task in (*framework.tasks.values(), *framework.completed):
            if task.agent_id == agent.id:
                is_over = task.id not in framework.tasks
                group = "completed" if is_over else "terminated" if task.is_terminal else "launched"
                found.setdefault(f"{group}_tasks", []).append(views.task_json(task))
    return found


def _executors(state: MasterState, agent: Agent, call: Json) -> Json:
    del state, call
    found = [{"executor_info": executor.info} for executor in agent.executors.values()]
    return {"executors": found} if found else {}


def _frameworks(state: MasterState, agent: Agent, call: Json) -> Json:
    del call
    there = dict.fromkeys(unit.framework_id for unit in state.units_on(agent.id))
    found = [{"framework_info": state.frameworks[name].info} for name in there if name in state.frameworks]
    return {"frameworks": found} if found else {}


def _whole(state: MasterState, agent: Agent, call: Json) -> Json:
    views_of = (("get_tasks", _tasks), ("get_executors", _executors), ("get_frameworks", _frameworks))
    return {name: view(state, agent, call) for name, view in views_of}


_VIEWS: dict[str, Callable[[MasterState, Agent, Json], Json]] = {
    "GET_AGENT": lambda state, agent, _: {"agent_info": agent_info(agent, state.identity.port)},
    "GET_CONTAINERS": _containers,
    "GET_TASKS": _tasks,
    "GET_EXECUTORS": _executors,
    "GET_FRAMEWORKS": _frameworks,
    "GET_OPERATIONS": lambda state, agent, call: {},
    "GET_RESOURCE_PROVIDERS": lambda state, agent, call: {},
    "GET_STATE": _whole,
}
