"""Validate TaskInfos and ExecutorInfos with Mesos' messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from strato.api.meta import Json
from strato.errors import InvalidInput
from strato.interop.mesos.master.model import Executor, value_of
from strato.interop.mesos.resourcejson import from_json
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.resourcetext import to_text
from strato.interop.mesos.wire import MissingFields, message

LONGEST_ID = 255
MOST_TASK_BYTES = 192 * 1024
"""Largest TaskInfo in JSON, as it is stored in an annotation of its pod, and annotations hold 256 KiB."""
_LIMITED = frozenset(("cpus", "mem"))


@dataclass(frozen=True, slots=True)
class Asked:
    """The context in which a task is validated."""

    framework_id: str
    agent_id: str
    role: str
    taken_ids: Callable[[str], str | None]
    """Returns why a task id cannot be used again, or None."""
    executors: Mapping[tuple[str, str], Executor]
    """Executors on the agent, by framework and id."""
    available: Resources
    in_group: bool = False


def problem_of_task(task: Json, asked: Asked) -> str | None:
    """Return the problem of a TaskInfo, or None."""
    try:
        message("TaskInfo").check_required(task)
    except MissingFields as error:
        return f"Task is not initialized: {error}"
    return (
        problem_of_id(value_of(task, "task_id"))
        or asked.taken_ids(value_of(task, "task_id"))
        or _problem_of_agent(task, asked)
        or _problem_of_kill_policy(task)
        or _problem_of_time(task)
        or _problem_of_health_check(task)
        or _problem_of_body(task, asked)
        or _problem_of_executor(task, asked)
        or _problem_of_resources(task, asked)
        or _problem_of_limits(task)
    )


def problem_of_id(value: str) -> str | None:
    """Return the problem of an id, or None."""
    if not value:
        return "ID must not be empty"
    if len(value) > LONGEST_ID:
        return f"ID must not be greater than {LONGEST_ID} characters"
    if value in (".", ".."):
        return f"'{value}' is disallowed"
    if any(ord(char) < 0x20 or ord(char) == 0x7F or char in "/\\" for char in value):
        return f"'{value}' contains invalid characters"
    return None


def _problem_of_agent(task: Json, asked: Asked) -> str | None:
    given = value_of(task, "agent_id")
    return (
        None if given == asked.agent_id else f"Task uses invalid agent {given} while agent {asked.agent_id} is expected"
    )


def _problem_of_kill_policy(task: Json) -> str | None:
    grace = task.get("kill_policy", {}).get("grace_period", {}).get("nanoseconds", 0)
    return "Task's 'kill_policy.grace_period' must be non-negative" if grace < 0 else None


def _problem_of_time(task: Json) -> str | None:
    longest = task.get("max_completion_time", {}).get("nanoseconds", 0)
    return "Task's 'max_completion_time' must be non-negative" if longest < 0 else None


def _problem_of_health_check(task: Json) -> str | None:
    check = task.get("health_check")
    if check is None:
        return None
    kind = check.get("type")
    if kind is None:
        return "Task uses invalid health check: HealthCheck must specify 'type'"
    body = kind.lower()
    if body not in check:
        return f"Task uses invalid health check: Expecting '{body}' to be set for {kind} health check"
    if kind == "COMMAND" and "value" not in check["command"]:
        return "Task uses invalid health check: Command health check must contain 'shell command'"
    path = check["http"].get("path", "/") if kind == "HTTP" else "/"
    if not path.startswith("/"):
        return f"Task uses invalid health check: The path '{path}' of HTTP health check must start with '/'"
    negative = [name for name in ("delay_seconds", "interval_seconds", "timeout_seconds", "grace_period_seconds")
                if check.get(name, 0) < 0]  # fmt: skip
    return f"Task uses invalid health check: Expecting '{negative[0]}' to be non-negative" if negative else None


def _problem_of_body(task: Json, asked: Asked) -> str | None:
    if asked.in_group and "executor" in task:
        return "'TaskInfo.executor' must not be set in a task group"
    if asked.in_group:
        return None if "command" in task or "container" in task else "Task of a group must have a CommandInfo"
    if ("command" in task) is ("executor" in task):
        return "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
    return problem_of_command(task["command"]) if "command" in task else None


def problem_of_command(command: Json) -> str | None:
    """Return the problem of a CommandInfo, or None."""
    for variable in command.get("environment", {}).get("variables", ()):
        name, kind = variable["name"], variable.get("type", "VALUE")
        if kind == "SECRET":
            return f"Environment variable '{name}' of type 'SECRET' cannot be resolved: there is no secret resolver"
        if "value" not in variable:
            return f"Environment variable '{name}' of type 'VALUE' must have a value set"
    return None


def _problem_of_executor(task: Json, asked: Asked) -> str | None:
    executor = task.get("executor")
    if executor is None:
        return None
    if executor.get("type", "CUSTOM") not in ("CUSTOM", "UNKNOWN"):
        return "'ExecutorInfo.type' must be 'CUSTOM'"
    if "command" not in executor:
        return "'ExecutorInfo.command' must be set"
    wrong = problem_of_id(value_of(executor, "executor_id")) or problem_of_command(executor["command"])
    if wrong:
        return wrong
    given = value_of(executor, "framework_id")
    if given and given != asked.framework_id:
        return f"ExecutorInfo has an invalid FrameworkID (Actual: {given} vs Expected: {asked.framework_id})"
    known = asked.executors.get((asked.framework_id, value_of(executor, "executor_id")))
    if known is not None and known.info != filled_in(executor, asked.framework_id):
        return (
            "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID "
            f"'{value_of(executor, 'executor_id')}'"
        )
    return None


def filled_in(executor: Json, framework_id: str) -> Json:
    """Return an ExecutorInfo with the framework's id and its type."""
    return {"type": "CUSTOM", **executor, "framework_id": {"value": framework_id}}


def _problem_of_resources(task: Json, asked: Asked) -> str | None:
    try:
        own = resources_of(task, asked.role)
        executor = _executor_resources(task, asked)
    except InvalidInput as error:
        return "; ".join(f"Task uses invalid resources: {item.where}: {item.message}" for item in error.problems)
    if not own:
        return "Task uses no resources"
    if len({kind.revocable for kind, _ in own}) > 1:
        return "Task (or its executor) uses both revocable and non-revocable resources"
    gpus = own.scalars().get("gpus", 0)
    if gpus % 1000:
        return "The 'gpus' resource must be an unsigned integer"
    if not asked.available.contains(own + executor):
        return (
            f"Total resources {to_text((own + executor).allocated(None))} required by task and its executor is more "
            f"than available {to_text(asked.available.allocated(None))}"
        )
    return None


def _executor_resources(task: Json, asked: Asked) -> Resources:
    executor = task.get("executor")
    if executor is None or (asked.framework_id, value_of(executor, "executor_id")) in asked.executors:
        return NOTHING
    return resources_of(executor, asked.role)


def resources_of(holder: Json, role: str) -> Resources:
    """Return the resources of a task or executor, allocated to the role of its offer.

    Raises:
        InvalidInput: The resources cannot be parsed.
    """
    return from_json(holder.get("resources", ())).allocated(role)


def _problem_of_limits(task: Json) -> str | None:
    limits = task.get("limits", {})
    foreign = sorted(limits.keys() - _LIMITED)
    if foreign:
        return f"Resource limits may only be set for 'cpus' and 'mem', not for '{foreign[0]}'"
    requested = from_json(task["resources"])
    for name, limit in limits.items():
        if limit["value"] < (requested.scalar(name) or 0.0):
            return f"Task's '{name}' limit {limit['value']} is less than its request {requested.scalar(name)}"
    return None
